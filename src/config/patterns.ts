import picomatch from 'picomatch';

/** Tells whether a name fits. */
export type Matches = (name: string) => boolean;

const EVERYTHING = '**';

const OPTIONS: picomatch.PicomatchOptions = { dot: true, nonegate: true };

/** Takes the names that fit one of some patterns: the one language of all patterns in settings and on the command line. */
export function anyOf(patterns: readonly string[]): Matches {
  // Patterns never match the parts `.` and `..` of a name, and everything means everything.
  if (patterns.includes(EVERYTHING)) return () => true;
  const matches = picomatch([...patterns], OPTIONS);
  return (name) => matches(name);
}

/** Whether a text fits more than the one name that it spells. */
export function isPattern(text: string): boolean {
  return picomatch.scan(text).isGlob;
}

/** Whether a pattern fits whatever there is. */
export function isEverything(pattern: string): boolean {
  return pattern === EVERYTHING;
}
