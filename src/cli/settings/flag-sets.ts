import type { Need } from '../../config/kinds.ts';

/** The settings that a command has flags for. */
export interface FlagSet {
  /** Settings, and sections of them, by their dotted names; `mirror` for all except the embedded service's. */
  readonly reads: readonly string[] | 'mirror' | 'all';
  /** The required parts. */
  readonly needs: readonly Need[];
  /** The usual flags: `COMMAND --help` shows these, `help COMMAND` shows all. */
  readonly onLine: readonly string[];
}

const SERVICE_ON_LINE = ['service.baseUrl', 'service.apiKeyFile', 'service.apiTokenFile'];
const PASS_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'publish'];
const RUN_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'schedule', 'log.level', 'http.listen'];

// These three have the same flags, so that the same flags fit every command. They differ in what help shows.
const MIRROR = { reads: 'mirror', needs: ['service', 'directory'] } as const;
/** The flags of the daemon. */
export const RUN_FLAGS: FlagSet = { ...MIRROR, onLine: RUN_ON_LINE };
/** The flags of a command that makes or plans a pass. */
export const PASS_FLAGS: FlagSet = { ...MIRROR, onLine: PASS_ON_LINE };
/** The flags of a command that reads the disk and, on request, the service. */
export const LOOK_FLAGS: FlagSet = { ...MIRROR, onLine: [...SERVICE_ON_LINE, 'directory'] };
/** The flags of `init`. */
export const INIT_FLAGS = { ...LOOK_FLAGS, reads: LOOK_FLAGS.onLine } satisfies FlagSet;
/** The flags of a command that uses only the disk. */
export const DISK_FLAGS: FlagSet = { ...MIRROR, onLine: ['directory', 'state'] };
/** The flags of a command on the settings themselves. */
export const ALL_FLAGS: FlagSet = { ...PASS_FLAGS, reads: 'all' };
