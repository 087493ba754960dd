/** What git says at the end of every failure to reach a repository, whatever the reason. */
const GENERIC =
  /^(?:Could not read from remote repository|Please make sure you have|and the repository exists)/;

/** What git puts before the lines that say why it ends (LC_ALL=C). */
const ENDING = /^(?:fatal|error): /;

/** Git's words where it has no user name or password to send (LC_ALL=C; git 2.39 to 2.51). */
const UNASKED = /could not read (?:Username|Password)/;

/** Whether a server asked for a user name and password, and there was none. */
export function lacksCredentials(said: string): boolean {
  return UNASKED.test(said);
}

/**
 * The reason in what a git program said that failed, in one line: the first one that says why it ends, else the first one.
 * @param said lines, also joined by semicolons, behind the program's name and how it ended
 */
export function reasonIn(said: string): string {
  const lines = said
    .replace(/^git \S+ (?:ended with \d+|was ended early)(?:: )?/, '')
    .split(/\s*[;\n]\s+|\n/)
    .filter((line) => line.trim() !== '' && !GENERIC.test(line.replace(ENDING, '')));
  const reason = lines.find((line) => ENDING.test(line)) ?? lines[0] ?? 'git gives no reason';
  return reason
    .replace(/^(?:fatal|error|remote|warning): /, '')
    .replaceAll(/\p{Cc}/gu, ' ')
    .trim();
}

/** The system's words where a program wants more than its bound lets it have (strerror(3), LC_ALL=C), in those of git. */
const OUT_OF_MEMORY = /out of memory|cannot allocate memory/i;
const FILE_TOO_LARGE = /File too large/;

/** Whether git ended because it may take no more memory; `said` as for {@link reasonIn}, so that a server's own words do not count. */
export function lacksMemory(said: string): boolean {
  return OUT_OF_MEMORY.test(reasonIn(said));
}

/** Whether git ended because a file may not become larger. */
export function lacksRoom(said: string): boolean {
  return FILE_TOO_LARGE.test(said);
}
