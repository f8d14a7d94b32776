"""What expressions can use, under the documented package name."""
