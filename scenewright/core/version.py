"""The version of scenewright: the build, the command line and run folders read it here."""

VERSION = "1.0.0"
