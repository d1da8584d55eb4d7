"""What a release is made of: wheels, their trial, the bill of materials."""
