"""From a scene graph to the prompt of a text-to-image model, and the check that it says all."""
