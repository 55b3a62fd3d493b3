"""Files as they were: kept before tools change them, and put back byte for byte when asked."""
