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
    const refusals = tree.add(entry);
    if (refusals !== null) yield* refusals;
    if (!tree.isFull) continue;
    yield countRefusal(`makes more than ${limits.maxEntries} files and folders`, limits);
    return;
  }
}

const COLLISION_ADVICE = 'Rename one in the service, or set archive.nameTwins to accept';

/** A name in a folder, and what it stands for. */
interface Name {
  readonly segment: string;
  readonly kind: TreeEntry['kind'];
  /** The first name of each form in it; null while there is none. */
  names: Map<string, Name> | null;
  /** Other names of its form, by their segments. */
  twins: Map<string, Name> | null;
}

/**
 * The names seen so far. Each is known in its folder by its own last segment: deep names would take memory and time by the square of
 * their depth if each folder were known by its whole path.
 */
export class Tree {
  private readonly limits: ArchiveLimits;
  private readonly root = nameOf('', 'folder');
  private lastFolder: { readonly path: string; readonly name: Name };
  private count = 0;
  /** Of the entry that is added; null while there are none. */
  private refusals: Refusal[] | null = null;

  constructor(limits: ArchiveLimits) {
    this.limits = limits;
    this.lastFolder = { path: '', name: this.root };
  }

  /** Whether there are more names than there may be. */
  get isFull(): boolean {
    return this.count > this.limits.maxEntries;
  }

  /** @returns what is wrong with an entry together with those before it; null where nothing is */
  add({ path, kind }: TreeEntry): readonly Refusal[] | null {
    this.refusals = null;
    const start = path.lastIndexOf('/') + 1;
    const folder = this.folderOf(path, start);
    if (folder === null) return this.refusals;
    const { name, isNew } = this.enter(folder, path, start, kind);
    if (!isNew && (name.kind !== 'folder' || kind !== 'folder')) this.refuse(clash(path, name.kind, kind));
    return this.refusals;
  }

  /** The folder that a path lies in; null where there is none, or no room. */
  private folderOf(path: string, end: number): Name | null {
    const folderPath = path.slice(0, end);
    if (this.lastFolder.path === folderPath) return this.lastFolder.name;
    let folder = this.root;
    for (let start = 0; start < end && !this.isFull;) {
      const slash = path.indexOf('/', start);
      const { name } = this.enter(folder, path.slice(0, slash), start, 'folder');
      if (name.kind !== 'folder') {
        this.refuse(through(path, path.slice(0, slash), name.kind));
        return null;
      }
      folder = name;
      start = slash + 1;
    }
    if (this.isFull) return null;
    this.lastFolder = { path: folderPath, name: folder };
    return folder;
  }

  /** The name that a path has in a folder, which it gets where it is new there. */
  private enter(
    folder: Name,
    path: string,
    start: number,
    kind: TreeEntry['kind'],
  ): { readonly name: Name; readonly isNew: boolean } {
    const segment = path.slice(start);
    const form = this.limits.nameTwins === 'accept' ? segment : foldName(segment);
    folder.names ??= new Map();
    const first = folder.names.get(form);
    const known = first?.segment === segment ? first : first?.twins?.get(segment);
    if (known !== undefined) return { name: known, isNew: false };
    const name = nameOf(segment, kind);
    this.count += 1;
    if (first === undefined) folder.names.set(form, name);
    else {
      this.refuse(collisionOf(path, path.slice(0, start) + first.segment));
      (first.twins ??= new Map()).set(segment, name);
    }
    return { name, isNew: true };
  }

  private refuse(refusal: Refusal): void {
    (this.refusals ??= []).push(refusal);
  }
}

function nameOf(segment: string, kind: TreeEntry['kind']): Name {
  return { segment, kind, names: null, twins: null };
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
