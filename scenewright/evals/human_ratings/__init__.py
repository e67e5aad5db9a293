"""What people say of pictures: blinded pages, their ratings, and agreement with the judges."""
