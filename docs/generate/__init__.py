"""What `make docs` adds to the written pages: pages made from the code, and one layout for all of them."""
