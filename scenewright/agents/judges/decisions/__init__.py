"""Judges that are decision models: typed questions, a probability for every option."""
