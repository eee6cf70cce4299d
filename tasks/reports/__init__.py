"""Report pages: one stage and one template per page."""
