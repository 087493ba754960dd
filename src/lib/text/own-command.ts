/** The parts of this process's command line that a printed command must repeat, so that it works as it is copied. */
export interface Invocation {
  /** The command that starts the program: `workbook-mirror`, or `npx workbook-mirror` from a clone. */
  readonly program: string;
  /** The flags for a command that only uses the disk, unquoted. */
  readonly diskFlags: readonly string[];
  /** The flags for a command that also uses the service, unquoted. */
  readonly passFlags: readonly string[];
}

/** The command that starts this program; another one if npm started it by its name, as in a clone (npm-exec(1)). */
export function programOf(env: NodeJS.ProcessEnv): string {
  const script = env['npm_command'] === 'exec' ? (env['npm_lifecycle_script'] ?? '') : '';
  return /^["']?workbook-mirror\b/.test(script) ? 'npx workbook-mirror' : 'workbook-mirror';
}

/** The commands that use the service, mirrored or embedded. */
const OF_SERVICE: ReadonlySet<string> = new Set(
  'sync run plan poll retry probe repos workbooks keys'.split(' '),
);

// A fact about the process, like process.argv; it is set once, before any message names a command.
let invocation: Invocation = { program: 'workbook-mirror', diskFlags: [], passFlags: [] };

/** Records how this process was called, for {@link ownCommand}. */
export function rememberInvocation(called: Invocation): void {
  invocation = called;
}

/** The command that started this process: `workbook-mirror`, or `npx workbook-mirror` from a clone. */
export function programName(): string {
  return invocation.program;
}

/**
 * A command of this program to be copied into a shell: with the settings file and the directory if the present process was
 * given these. Names are quoted for any shell (POSIX, 2.2.2): they come from the service, and may hold
 * anything that a shell would execute within double quotes.
 * @param command with its own flags, such as `verify --repair`
 * @param names of targets or files
 */
export function ownCommand(command: string, ...names: readonly string[]): string {
  const [verb = ''] = command.split(' ');
  const isOfService =
    OF_SERVICE.has(verb) || command.startsWith('verify --repair') || command.startsWith('diff --upstream');
  const flags = verb === 'help' ? [] : isOfService ? invocation.passFlags : invocation.diskFlags;
  // A command may name another shard than this process has.
  const replaced = command.includes(' --shard ') ? flags.indexOf('--shard') : -1;
  const others = replaced === -1 ? flags : flags.toSpliced(replaced, 2);
  const end = names.some((name) => name.startsWith('-')) ? ['--'] : [];
  return [invocation.program, command, ...others.map(quotedWhereNeeded), ...end, ...names.map(quoted)].join(
    ' ',
  );
}

/** The flags in the commands that this process names, as they are written there. */
export function ownFlags() {
  const written = (flags: readonly string[]): string =>
    flags.map((word) => ` ${quotedWhereNeeded(word)}`).join('');
  return { disk: written(invocation.diskFlags), pass: written(invocation.passFlags) };
}

/** A text of another process, in whose commands the flags of this process replace those of that one. */
export function withOwnFlags(text: string, { disk, pass }: ReturnType<typeof ownFlags>): string {
  const own = ownFlags();
  const ofDisk = (part: string): string => (disk === '' ? part : part.replaceAll(disk, () => own.disk));
  return pass === disk ? ofDisk(text) : text.split(pass).map(ofDisk).join(own.pass);
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** A word quoted for a shell, if it needs quotes. */
export function quotedWhereNeeded(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : quoted(word);
}
