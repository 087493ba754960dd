import { foldName } from '../../lib/paths/safe-path.ts';

/** A name in the tree that an upload makes, and what is wrong with it. */
interface Node {
  /** From the outermost folder, with slashes. */
  readonly path: string;
  isFile: boolean;
  /** Whether the commit holds this very name already. */
  exists: boolean;
  /** The entries of a folder, by name and by the form that file systems which fold names give it. */
  readonly children: Map<string, Node>;
  readonly forms: Map<string, Node>;
  /** Something in the commit that it cannot replace. */
  occupiedBy: 'file' | 'folder' | null;
  /** Path of another name in the upload, or in the commit, that differs only in case or Unicode form. */
  uploadedTwin: string | null;
  existingTwin: string | null;
}

/** A fault of a file of an upload, told as it goes on from the path. */
export interface TreeProblem {
  readonly path: string;
  /** Whether another state of the repository would make it good. */
  readonly kind: 'invalid' | 'conflict';
  readonly message: string;
}

function createNode(path: string): Node {
  return {
    path,
    isFile: false,
    exists: false,
    children: new Map(),
    forms: new Map(),
    occupiedBy: null,
    uploadedTwin: null,
    existingTwin: null,
  };
}

/** The tree that the files of an upload make, to be compared with that of the commit that they are put on. */
export type UploadTree = NonNullable<ReturnType<typeof createUploadTree>>;

/**
 * Makes the tree of some files. It takes time and memory by the number of their names, whatever they look like: each name is
 * kept once, in its folder.
 * @param paths that can be committed each for itself
 * @param folderLimit more folders than this make no tree
 * @returns null for more folders
 */
export function createUploadTree(paths: readonly string[], folderLimit: number) {
  const root = createNode('');
  const files = new Set<string>();
  const twice = new Set<string>();
  let names = 0;
  for (const path of paths) {
    if (files.has(path)) twice.add(path);
    files.add(path);
    let node = root;
    for (const segment of path.split('/')) {
      const known = node.children.get(segment);
      if (known === undefined) names += 1;
      node = known ?? addChild(node, segment);
    }
    node.isFile = true;
    if (names - files.size > folderLimit) return null;
  }
  return {
    /** Takes a file of the commit into account. */
    meet: (existing: string): void => meet(root, existing),
    /** Finds the problems so far, at most one for each file, in the order of the files. */
    problems: (): TreeProblem[] => [...files].flatMap((path) => problemOf(root, path, twice) ?? []),
    /** Which of the files the commit holds already, in the order of the files. */
    replaces: (): string[] => [...files].filter((path) => isReplaced(nodesOf(root, path).at(-1))),
  };
}

function addChild(folder: Node, segment: string): Node {
  const node = createNode(folder.path === '' ? segment : `${folder.path}/${segment}`);
  folder.children.set(segment, node);
  const form = foldName(segment);
  const twin = folder.forms.get(form);
  if (twin === undefined) folder.forms.set(form, node);
  else node.uploadedTwin = twin.path;
  return node;
}

function meet(root: Node, existing: string): void {
  const segments = existing.split('/');
  let folder = root;
  for (const [index, segment] of segments.entries()) {
    const node = folder.children.get(segment);
    // A name that is uploaded as it is concerns its uploaded twins alone, and most folders have none.
    if (folder.children.size > (node === undefined ? 0 : folder.forms.size)) {
      const twin = folder.forms.get(foldName(segment));
      if (twin !== node && twin !== undefined) twin.existingTwin ??= segments.slice(0, index + 1).join('/');
    }
    if (node === undefined) return;
    node.exists = true;
    const isFile = index === segments.length - 1;
    if (isFile !== node.isFile) node.occupiedBy ??= isFile ? 'file' : 'folder';
    folder = node;
  }
}

/** The folders that a path leads through, and its end. */
function nodesOf(root: Node, path: string): Node[] {
  const nodes: Node[] = [];
  let folder: Node | undefined = root;
  for (const segment of path.split('/')) {
    folder = folder?.children.get(segment);
    if (folder !== undefined) nodes.push(folder);
  }
  return nodes;
}

function isReplaced(node: Node | undefined): boolean {
  return node !== undefined && node.exists && node.occupiedBy === null;
}

function problemOf(root: Node, path: string, twice: ReadonlySet<string>): TreeProblem | null {
  if (twice.has(path)) return { path, kind: 'invalid', message: 'is in this upload twice' };
  for (const node of nodesOf(root, path)) {
    const problem = node.path === path ? fileProblem(node) : folderProblem(node);
    if (problem !== null) return { path, ...problem };
  }
  return null;
}

type Wrong = Pick<TreeProblem, 'kind' | 'message'>;

function fileProblem(node: Node): Wrong | null {
  if (node.children.size > 0) return { kind: 'invalid', message: 'would be a file and a folder' };
  if (node.occupiedBy === 'folder') return { kind: 'conflict', message: 'would take the place of a folder' };
  const twin = twinOf(node);
  return twin === null ? null : { kind: 'conflict', message: differsFrom(twin) };
}

function folderProblem(node: Node): Wrong | null {
  const path = JSON.stringify(node.path);
  if (node.isFile) return { kind: 'invalid', message: `lies below ${path}, which would be a file` };
  if (node.occupiedBy === 'file') return { kind: 'conflict', message: `lies below ${path}, which is a file` };
  const twin = twinOf(node);
  return twin === null ? null : { kind: 'conflict', message: `lies in ${path}, which ${differsFrom(twin)}` };
}

/** A name that the commit holds already makes nothing worse, whatever stands beside it. */
function twinOf({ exists, uploadedTwin, existingTwin }: Node): string | null {
  return exists ? null : (uploadedTwin ?? existingTwin);
}

function differsFrom(twin: string): string {
  return `differs from ${JSON.stringify(twin)} only in case or Unicode form`;
}
