import { foldName } from '../../lib/paths/safe-path.ts';
import { type ArchiveLimits, countRefusal } from './limits.ts';
import { entryRefusal, quoted, type Refusal } from './refusals.ts';

/** An accepted entry, as far as it matters to others. */
export interface TreeEntry {
  readonly kind: 'file' | 'folder' | 'skip';
  /** Without a slash at its end. */
  readonly path: string;
}

/**
 * Judges the entries of an archive together: a name that occurs twice, is a file and a folder at once or leads through
 * something that is left out is refused, and so are names that a system without case or with its own Unicode form takes
 * for one, unless they are accepted. A folder may be named several times. Folders that are not entries by themselves count
 * as well, so that a few deep names cannot make millions of folders.
 */
export function* refusalsTogether(entries: Iterable<TreeEntry>, limits: ArchiveLimits): Generator<Refusal> {
  const tree = new Tree(limits);
  for (const entry of entries) {
    yield* tree.add(entry);
    if (!tree.isFull) continue;
    yield countRefusal(`makes more than ${limits.maxEntries} files and folders`, limits);
    return;
  }
}

const COLLISION_ADVICE = 'Rename one in the service, or set archive.nameTwins to accept';
const ROOT = 0;

/**
 * The names seen so far, and what they stand for. Each has a number, and is known by its folder's number and its own last segment:
 * deep names would take memory and time by the square of their depth if each folder were known by its whole path.
 */
class Tree {
  private readonly limits: ArchiveLimits;
  private readonly numbers = new Map<string, number>();
  private readonly kinds: TreeEntry['kind'][] = ['folder'];
  /** The first segment of each folded form in a folder. */
  private readonly forms = new Map<string, string>();
  private lastFolder = { path: '', number: ROOT };

  constructor(limits: ArchiveLimits) {
    this.limits = limits;
  }

  /** Whether there are more names than there may be. */
  get isFull(): boolean {
    return this.numbers.size > this.limits.maxEntries;
  }

  *add({ path, kind }: TreeEntry): Generator<Refusal> {
    const start = path.lastIndexOf('/') + 1;
    const folder = yield* this.folderOf(path, start);
    if (folder === null) return;
    const known = this.kindOf(folder, path.slice(start));
    if (known === null) yield* this.note(folder, path, start, kind);
    else if (known !== 'folder' || kind !== 'folder') yield clash(path, known, kind);
  }

  /** The number of the folder that a path lies in; null where there is none, or no room. */
  private *folderOf(path: string, end: number): Generator<Refusal, number | null> {
    const folderPath = path.slice(0, end);
    if (this.lastFolder.path === folderPath) return this.lastFolder.number;
    let number = ROOT;
    for (let start = 0; start < end && !this.isFull;) {
      const slash = path.indexOf('/', start);
      const segment = path.slice(start, slash);
      const known = this.kindOf(number, segment);
      if (known === 'file' || known === 'skip') {
        yield through(path, path.slice(0, slash), known);
        return null;
      }
      if (known === null) yield* this.note(number, path.slice(0, slash), start, 'folder');
      number = this.numbers.get(`${number}/${segment}`) ?? ROOT;
      start = slash + 1;
    }
    if (this.isFull) return null;
    this.lastFolder = { path: folderPath, number };
    return number;
  }

  private kindOf(folder: number, segment: string): TreeEntry['kind'] | null {
    const number = this.numbers.get(`${folder}/${segment}`);
    return number === undefined ? null : (this.kinds[number] ?? null);
  }

  private *note(folder: number, path: string, start: number, kind: TreeEntry['kind']): Generator<Refusal> {
    const segment = path.slice(start);
    this.numbers.set(`${folder}/${segment}`, this.kinds.length);
    this.kinds.push(kind);
    if (this.limits.nameTwins === 'accept') return;
    const form = `${folder}/${foldName(segment)}`;
    const other = this.forms.get(form);
    if (other === undefined) this.forms.set(form, segment);
    else yield collisionOf(path, path.slice(0, start) + other);
  }
}

function clash(path: string, known: TreeEntry['kind'], kind: TreeEntry['kind']): Refusal {
  if (known !== 'folder' && kind !== 'folder') return entryRefusal(path, 'occurs twice');
  const isLeftOut = known === 'skip' || kind === 'skip';
  return entryRefusal(
    path,
    isLeftOut ? 'is a link or a special file, and a folder at once' : 'is a file and a folder at once',
  );
}

function through(path: string, folder: string, known: 'file' | 'skip'): Refusal {
  return known === 'skip'
    ? entryRefusal(path, `leads through ${quoted(folder)}, which is a link or a special file`)
    : entryRefusal(folder, 'is a file and a folder at once');
}

function collisionOf(path: string, other: string): Refusal {
  return entryRefusal(path, `differs from ${quoted(other)} only in case or Unicode form`, COLLISION_ADVICE);
}
