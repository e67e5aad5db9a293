"""A gate for releases: is a model, prompt, adapter or sampler worse than the one before?"""
