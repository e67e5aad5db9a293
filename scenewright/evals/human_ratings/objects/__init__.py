"""People rate how real the objects of pictures look (object-centric realism, OcR)."""
