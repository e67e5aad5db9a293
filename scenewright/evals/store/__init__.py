"""Stores of evaluations: journal, tables, manifest, replies of models, extracted graphs."""
