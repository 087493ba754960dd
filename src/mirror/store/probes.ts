import { randomUUID } from 'node:crypto';
import {
  access,
  constants,
  link,
  lstat,
  mkdir,
  readdir,
  rename,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { basename, join } from 'node:path';

import { mountPointsBelow } from '../../lib/disk/place-facts.ts';
import { findMount, resolvedPath } from '../../lib/disk/mounts.ts';
import {
  ONE_FILE_SYSTEM_HINT,
  systemCode,
  unlessMissing,
  VOLUME_HINT,
} from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { bindNativeCalls, type NativeCalls } from '../../lib/native/file-calls.ts';
import { formatDuration } from '../../lib/text/units.ts';
import type { ArchiveLimits } from '../archive/policy.ts';
import { type DirectoryLayout, layoutOf } from './layout.ts';
import type { PublishMode } from './publish/moves.ts';

/** The properties of the file system of a directory that publishing depends on, as they were found by trying. */
export interface FileSystemFacts {
  /** Whether it swaps two folders in one step. */
  readonly canExchange: boolean;
  readonly hasHardLinks: boolean;
  readonly hasSymbolicLinks: boolean;
  /** It keeps times of files in whole multiples of this, in milliseconds; null where it does not keep them. */
  readonly timeStepMs: number | null;
  /** Whether names that differ only in case or Unicode form are one name. */
  readonly foldsNames: boolean;
  /** Whether it lists names as they were given. */
  readonly keepsNames: boolean;
  /** Published folders that lie in a lower layer of an overlay, which renames none of them; below the directory. */
  readonly inLowerLayer: readonly string[];
}

/** The settings that ask something of the file system. */
export interface FileSystemWants {
  readonly publish: PublishMode;
  readonly nameTwins: ArchiveLimits['nameTwins'];
}

/**
 * Finds out by trying what the file system of a directory can do: about twenty calls. What is made for that lies in the staging area,
 * which is swept.
 * @throws system errors that no file system gives for what it cannot do
 */
async function probeFileSystem(layout: DirectoryLayout, native: NativeCalls): Promise<FileSystemFacts> {
  const folder = join(layout.staging, `probe-${randomUUID()}`);
  const inFolder = (name: string): string => join(folder, name);
  const [one, other, file] = [inFolder('one'), inFolder('other'), inFolder(NAME)];
  try {
    await mkdir(one, { recursive: true });
    await mkdir(other);
    await writeFile(file, '');
    return {
      canExchange: await can(() => native.exchange(one, other)),
      hasHardLinks: await can(() => link(file, join(one, 'link'))),
      hasSymbolicLinks: await can(() => symlink('other', inFolder('link'))),
      timeStepMs: await timeStep(file),
      foldsNames: (await unlessMissing(lstat(inFolder(FOLDED)))) !== null,
      keepsNames: (await readdir(folder)).includes(NAME),
      inLowerLayer: await foldersInLowerLayer(layout, folder),
    };
  } finally {
    await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

/** A name that a file system may store in another form, and one that it may take for the same. */
const NAME = 'Probe \u00e9';
const FOLDED = 'probe e\u0301';

/** Errors by which a file system says that it has no such call, or that nobody may make it there. */
const CANNOT: ReadonlySet<string | undefined> = new Set(
  'EINVAL ENOSYS ENOTSUP EOPNOTSUPP EPERM EMLINK EXDEV'.split(' '),
);

async function can(call: () => Promise<void> | void): Promise<boolean> {
  try {
    await call();
    return true;
  } catch (error) {
    if (CANNOT.has(systemCode(error))) return false;
    throw error;
  }
}

/** An odd second with a part that no coarse step divides; whole milliseconds. */
const PROBE_TIME_MS = 1_234_567_891_237;
const TIME_STEPS_MS = [1, 10, 100, 1000, 2000];

async function timeStep(file: string): Promise<number | null> {
  if (!(await can(() => utimes(file, PROBE_TIME_MS / 1000, PROBE_TIME_MS / 1000)))) return null;
  const foundMs = Math.round((await lstat(file)).mtimeMs);
  return TIME_STEPS_MS.find((stepMs) => PROBE_TIME_MS - (PROBE_TIME_MS % stepMs) === foundMs) ?? null;
}

/**
 * An overlay renames no folder that lies in a lower layer, unless it is mounted with `redirect_dir` (Linux,
 * Documentation/filesystems/overlayfs.rst), and refuses that before it sees that the place is taken by a folder with something in it:
 * so nothing is ever renamed here, on any file system.
 * @param taken such a folder
 */
async function foldersInLowerLayer(layout: DirectoryLayout, taken: string): Promise<string[]> {
  if ((await findMount(layout.root))?.fileSystem !== 'overlay') return [];
  const found: string[] = [];
  for (const name of (await unlessMissing(readdir(layout.mirror))) ?? []) {
    const code = await rename(join(layout.mirror, name), taken).then(() => undefined, systemCode);
    if (code === 'EXDEV') found.push(join(basename(layout.mirror), name));
  }
  return found;
}

/** The decision on a file system: why it does not do, or the limits that it has; these go on where "the file system of X " ends. */
export interface Fitness {
  readonly refusal: { readonly what: string; readonly hint: string } | null;
  readonly limits: readonly string[];
}

/** The coarsest step of times that files are given. */
const COARSEST_STEP_MS = 1000;

/** Decides whether a file system does for settings. */
function judgeFileSystem(facts: FileSystemFacts, wants: FileSystemWants): Fitness {
  return { refusal: refusalOf(facts, wants), limits: limitsOf(facts, wants) };
}

function refusalOf(facts: FileSystemFacts, { publish, nameTwins }: FileSystemWants): Fitness['refusal'] {
  const { canExchange, hasSymbolicLinks, timeStepMs, inLowerLayer } = facts;
  const auto = canExchange ? 'auto, which swaps folders' : 'auto, which renames file by file';
  const [lower] = inLowerLayer;
  if (lower !== undefined)
    return {
      what: `is an overlay, and ${lower} lies in a lower layer of it, where no folder can be renamed`,
      hint: VOLUME_HINT,
    };
  if (publish === 'exchange' && !canExchange) {
    const orLink = hasSymbolicLinks ? ', or to link, which has a link lead to whole trees' : '';
    return {
      what: 'cannot swap directories, as publish: exchange needs',
      hint: `Set publish to ${auto}${orLink}.`,
    };
  }
  if (publish === 'link' && !hasSymbolicLinks)
    return {
      what: 'has no symbolic links, which publish: link needs',
      hint: `Set publish to ${auto} there.`,
    };
  if (timeStepMs === null || timeStepMs > COARSEST_STEP_MS)
    return {
      what: 'does not keep the times of files to the second, so that every file would look changed',
      hint: OTHER_HINT,
    };
  if (!facts.keepsNames)
    return {
      what: 'lists names in another case or Unicode form than they were given, so that every such file would look lost',
      hint: OTHER_HINT,
    };
  if (facts.foldsNames && nameTwins === 'accept')
    return {
      what: 'takes names that differ in case or Unicode form for one, which archive.nameTwins: accept does not allow for',
      hint: 'Set archive.nameTwins to refuse.',
    };
  return null;
}

const OTHER_HINT = 'Put the directory on another file system, or mount it with other options.';

function limitsOf(facts: FileSystemFacts, { publish }: FileSystemWants): string[] {
  const { canExchange, hasSymbolicLinks, hasHardLinks, timeStepMs } = facts;
  const limits: string[] = [];
  if (publish !== 'link' && !canExchange) {
    const advice = hasSymbolicLinks ? '; with publish: link they do not' : '';
    limits.push(
      `cannot swap directories: publishing goes file by file, and readers may see a tree between two states for an instant${advice}`,
    );
  }
  if (!hasHardLinks)
    limits.push('has no hard links: a tree that changes is copied whole, and so is what the history keeps');
  if (timeStepMs !== null && timeStepMs > 1)
    limits.push(
      `keeps times in steps of ${formatDuration(timeStepMs)}: files get the step before their time`,
    );
  return limits;
}

/**
 * Looks for other file systems below a directory, from which nothing can be renamed into it.
 * @returns mount points deeper in the program's folders: what is not below them can be mirrored
 * @throws MirrorError `directory.unusable` where one of these folders itself is on another file system
 */
export async function refuseMounts(layout: DirectoryLayout): Promise<string[]> {
  const { internal, mirror, manifests, history, trees } = layout;
  const root = await resolvedPath(layout.root);
  const device = (await unlessMissing(lstat(root)))?.dev;
  const points = mountPointsBelow(root);
  const deeper: string[] = [];
  for (const name of [internal, mirror, manifests, history, trees].map((folder) => basename(folder))) {
    const folder = join(root, name);
    const found = await unlessMissing(lstat(folder));
    // A subvolume of btrfs is another file system, and no mount point.
    if (points.includes(folder) || (found?.isDirectory() === true && found.dev !== device)) {
      const what = points.includes(folder)
        ? 'a mount point of its own'
        : 'a file system or subvolume of its own';
      throw new MirrorError('directory.unusable', `directory: ${folder} is ${what}.`, {
        hint: ONE_FILE_SYSTEM_HINT,
      });
    }
    deeper.push(...points.filter((point) => point.startsWith(`${folder}/`)));
  }
  return deeper;
}

/**
 * As {@link examineFileSystem}, of a directory that another process may have open, or that is not there yet: then only the mounts are
 * looked at. Null where this user may not try anything there.
 */
export async function examineDirectory(directory: string, wants: FileSystemWants): Promise<Examined | null> {
  const layout = layoutOf(directory);
  await refuseMounts(layout);
  try {
    await access(layout.staging, constants.W_OK);
    return await examineFileSystem(layout, bindNativeCalls(), wants);
  } catch (error) {
    if (error instanceof MirrorError) throw error;
    return null;
  }
}

/** What a directory was found to be fit for. */
export interface Examined {
  readonly facts: FileSystemFacts;
  /** What its file system cannot do, and what comes of that; each goes on where "the file system of X " ends. */
  readonly limits: readonly string[];
}

/**
 * Makes sure that the file system of a directory does for the settings.
 * @throws MirrorError `directory.unusable`; system errors
 */
export async function examineFileSystem(
  layout: DirectoryLayout,
  native: NativeCalls,
  wants: FileSystemWants,
): Promise<Examined> {
  const mountPoints = await refuseMounts(layout);
  const facts = await probeFileSystem(layout, native);
  const { refusal, limits } = judgeFileSystem(facts, wants);
  if (refusal !== null) {
    const message = `directory: the file system of ${layout.root} ${refusal.what}.`;
    throw new MirrorError('directory.unusable', message, { hint: refusal.hint });
  }
  const ofMounts = mountPoints.map(
    (point) => `has ${point} mounted in it: nothing can be published there, as that is another file system`,
  );
  return { facts, limits: [...limits, ...ofMounts] };
}
