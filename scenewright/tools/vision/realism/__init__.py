"""Object-centric realism (OcR): how real the objects of a picture look, and its scorers."""
