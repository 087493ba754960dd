import { type CommandNode, everyNode, type Flag, type Value } from './command-tree.ts';

/** Flags that say where the mirror, or the service, is: a completion of names has to know them. */
const PLACES = ['--config', '--directory', '--serve-directory'];

/** The value that may complete the end of a line. */
export interface Expected {
  readonly value: Value;
  /** Stands before the value in the word: `--publish=`. */
  readonly lead: string;
  /** The flags on the line that say where the mirror is, each with its value in one word. */
  readonly places: readonly string[];
}

/** Where some words lead to. */
interface Walked extends Pick<Expected, 'places'> {
  readonly node: CommandNode;
  /** How many arguments of that command are among them. */
  readonly count: number;
  readonly waiting: Flag | undefined;
  /** Whether `--` stands among them, behind which nothing is a flag. */
  readonly isBare: boolean;
}

/**
 * Finds what may stand in place of the last word of a line.
 * @param words all after the program's name, as the program would get them; the last may be empty
 */
export function expectedAt(root: CommandNode, words: readonly string[]): Expected {
  const flags = flagsByName(everyNode(root).flatMap((node) => node.flags));
  const current = words.at(-1) ?? '';
  const { node, count, waiting, isBare, places } = walk(root, flags, words.slice(0, -1));
  const [lead = ''] = waiting === undefined && !isBare ? (/^--[^=]*=/.exec(current) ?? []) : [];
  const flag = waiting ?? flags.get(lead.slice(0, -1));
  const value = flag?.value ?? (lead === '' ? standingAlone(node, count, current, isBare) : { kind: 'text' });
  return { value, lead, places };
}

/** Goes over words to the command that they lead to, and to the flag that waits for its value. */
function walk(root: CommandNode, flags: ReadonlyMap<string, Flag>, words: readonly string[]): Walked {
  const places: string[] = [];
  let node = root;
  let count = 0;
  let waiting: Flag | undefined;
  for (const [index, word] of words.entries()) {
    if (waiting !== undefined) {
      if (PLACES.includes(waiting.long)) places.push(`${waiting.long}=${word}`);
      waiting = undefined;
    } else if (word === '--') {
      return { node, count: count + words.length - index - 1, waiting, isBare: true, places };
    } else if (word.startsWith('-')) {
      if (PLACES.some((flag) => word.startsWith(`${flag}=`))) places.push(word);
      const flag = flags.get(word);
      waiting = flag?.value === null ? undefined : flag;
    } else {
      const child = node.children.find(({ name }) => name === word);
      count = child === undefined ? count + 1 : 0;
      node = child ?? node;
    }
  }
  return { node, count, waiting, isBare: false, places };
}

/** A flag, a command or, behind so many others, an argument. */
function standingAlone(node: CommandNode, count: number, current: string, isBare: boolean): Value {
  const { flags, children, arguments: values } = node;
  if (current.startsWith('-') && !isBare) {
    const choices = [...flagsByName(flags)].map(([name, { description }]) => `${name}\t${description}`);
    return { kind: 'choice', choices };
  }
  if (children.length === 0) return values[count] ?? values.at(-1) ?? { kind: 'text' };
  return { kind: 'choice', choices: children.map(({ name, summary }) => `${name}\t${summary}`) };
}

function flagsByName(flags: readonly Flag[]): Map<string, Flag> {
  return new Map(
    flags.flatMap((flag) =>
      [flag.short, flag.long].flatMap((name) => (name === undefined ? [] : [[name, flag]])),
    ),
  );
}
