"""Raw JSON → objects: only the fields this service reads, with Go's reading of null as absent.

msgspec decodes straight into these structs, skips what they don't name and says which place is
of a wrong type. A null decodes to Go's zero value, as encoding/json does.
"""
