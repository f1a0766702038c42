"""Tables, as parquet and arrow files hold them: everything is decoded, and their columns of text are counted."""
