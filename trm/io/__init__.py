"""Files: read and written whole or not at all; problems, configs, CSV and Markdown."""
