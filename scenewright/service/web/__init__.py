"""Pages for people: the start page, the gallery, live runs, compared rounds."""
