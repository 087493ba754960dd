/** The variables of the environment that say how text is shown. */
export type TerminalEnvironment = Readonly<Record<string, string | undefined>>;

/**
 * Whether text may be coloured or emphasised: a NO_COLOR that is not empty forbids it (https://no-color.org), else a
 * FORCE_COLOR that is not empty decides (`0` and `false` forbid it), else it takes a terminal that is not `TERM=dumb`.
 */
export function mayColor(env: TerminalEnvironment, isTerminal: boolean): boolean {
  if (isGiven(env['NO_COLOR'])) return false;
  const forced = env['FORCE_COLOR'];
  if (isGiven(forced)) return forced !== '0' && forced !== 'false';
  return mayRedraw(env, isTerminal);
}

/** Whether a line can be written over: on a terminal that knows how to erase one, which `TERM=dumb` does not (terminfo(5)). */
export function mayRedraw(env: TerminalEnvironment, isTerminal: boolean): boolean {
  return isTerminal && env['TERM'] !== 'dumb';
}

function isGiven(value: string | undefined): boolean {
  return value !== undefined && value !== '';
}
