"""The single studies of the kit, one file a subject."""
