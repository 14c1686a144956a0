"""Problems, how they are drawn on canvases, and how canvases are read."""
