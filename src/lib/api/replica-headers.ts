/**
 * The header in which a replica of the service says when its answer was last known to be what the original has, ISO 8601. The service
 * itself never sends it. In the archives of whoever does, the times of the files are those of a mirror, and not those of an archiver.
 */
export const LAST_VERIFIED_HEADER = 'last-verified';
