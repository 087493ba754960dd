import type { Need } from '../../config/kinds.ts';

/** The settings that a command has flags for. */
export interface FlagSet {
  /** Settings, and sections of them, by their dotted names; `mirror` for all except the embedded service's. */
  readonly reads: readonly string[] | 'mirror' | 'all';
  /** The parts that it cannot do without. */
  readonly needs: readonly Need[];
  /** Those that people give on a line: the help of a command shows these, `--help-all` the others, too. */
  readonly onLine: readonly string[];
}

const SERVICE_ON_LINE = ['service.baseUrl', 'service.apiKeyFile', 'service.apiTokenFile'];
const PASS_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'publish'];
const RUN_ON_LINE = [...SERVICE_ON_LINE, 'directory', 'concurrency', 'schedule', 'log.level', 'http.listen'];

// The flags of a mirror are the same for all three, so that one line of them fits every command; they differ in what help shows.
const MIRROR = { reads: 'mirror', needs: ['service', 'directory'] } as const;
/** The flags of the daemon. */
export const RUN_FLAGS: FlagSet = { ...MIRROR, onLine: RUN_ON_LINE };
/** The flags of a command that makes or plans a pass. */
export const PASS_FLAGS: FlagSet = { ...MIRROR, onLine: PASS_ON_LINE };
/** The flags of a command that reads the disk and, where it is asked to, the service. */
export const LOOK_FLAGS: FlagSet = { ...MIRROR, onLine: [...SERVICE_ON_LINE, 'directory'] };
/** The flags of what the first settings are made of. */
export const INIT_FLAGS = { ...LOOK_FLAGS, reads: LOOK_FLAGS.onLine } satisfies FlagSet;
/** The flags of a command that reads or changes the disk alone. */
export const DISK_FLAGS: FlagSet = { ...MIRROR, onLine: ['directory', 'state'] };
/** The flags of a command on the settings themselves. */
export const ALL_FLAGS: FlagSet = { ...PASS_FLAGS, reads: 'all' };
/** The flags of a command that asks the service and has no mirror. */
export const SERVICE_FLAGS: FlagSet = { reads: ['service'], needs: ['service'], onLine: SERVICE_ON_LINE };
