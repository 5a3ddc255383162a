"""From run folders to tables, tests, figures and one page: everything here only reads runs."""
