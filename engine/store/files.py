from engine.files import explained, folder_whole, safe_id, sha256_of, write_json, write_whole  # noqa: F401
