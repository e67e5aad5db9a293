"""How real the objects of a picture look: object-centric realism (OcR) and who scores it."""
