"""The version of scenewright."""

VERSION = "0.1.0"
