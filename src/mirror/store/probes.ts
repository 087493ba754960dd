import { randomUUID } from 'node:crypto';
import {
  access,
  constants,
  link,
  lstat,
  mkdir,
  readdir,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { basename, join } from 'node:path';

import { mountPointsBelow, resolvedPath } from '../../lib/disk/mounts.ts';
import { ONE_FILE_SYSTEM_HINT, systemCode, unlessMissing } from '../../lib/errors/disk-errors.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import type { NativeCalls } from '../../lib/native/file-calls.ts';
import { formatDuration } from '../../lib/text/units.ts';
import type { ArchiveLimits } from '../archive/policy.ts';
import { type DirectoryLayout, layoutOf } from './layout.ts';
import type { PublishMode } from './publish/moves.ts';

/** The properties of a directory's file system that publishing depends on, found by trying. */
type FileSystemFacts = Readonly<Awaited<ReturnType<typeof probeFileSystem>>>;

/** The settings that need something of the file system. */
export interface FileSystemWants {
  readonly publish: PublishMode;
  readonly nameTwins: ArchiveLimits['nameTwins'];
}

/** A name that a file system may store in another form, and one that it may treat as the same. */
const NAME = 'Probe \u00e9';
const FOLDED = 'probe e\u0301';

/** Finds out by trying, in about twenty calls, what a file system can do. @throws system errors for other reasons */
async function probeFileSystem({ staging }: DirectoryLayout, native: NativeCalls) {
  const folder = join(staging, `probe-${randomUUID()}`);
  const [one, other, file] = [join(folder, 'one'), join(folder, 'other'), join(folder, NAME)];
  try {
    await mkdir(one, { recursive: true });
    await mkdir(other);
    await writeFile(file, '');
    return {
      /** Whether it swaps two folders in one step. */
      canExchange: await can(() => native.exchange(one, other)),
      hasHardLinks: await can(() => link(file, join(one, 'link'))),
      hasSymbolicLinks: await can(() => symlink('other', join(folder, 'link'))),
      /** It stores file times in whole multiples of this, in milliseconds; null if it does not store them. */
      timeStepMs: await timeStep(file),
      /** Whether it treats names that differ only in case or Unicode form as one name. */
      foldsNames: (await unlessMissing(lstat(join(folder, FOLDED)))) !== null,
      /** Whether it lists names as they were given. */
      keepsNames: (await readdir(folder)).includes(NAME),
    };
  } finally {
    await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
}

/** Errors that mean that a file system lacks a call, or that no process may make it there. */
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

/** The coarsest step of file times. */
const COARSEST_STEP_MS = 1000;

const OTHER_HINT = 'Put the directory on another file system, or mount it with other options.';

/** @param root the directory, for messages @throws MirrorError `directory.unusable` where its file system does not suit the settings */
function refuseUnsuitable(
  root: string,
  { canExchange, hasSymbolicLinks, timeStepMs, keepsNames, foldsNames }: FileSystemFacts,
  { publish, nameTwins }: FileSystemWants,
): void {
  const refuse = (what: string, hint: string): never => {
    throw unusable(`the file system of ${root} ${what}`, hint);
  };
  const orLink = hasSymbolicLinks ? ', or to link, which has a link lead to whole trees' : '';
  if (publish === 'exchange' && !canExchange)
    refuse(
      'cannot swap directories, as publish: exchange needs',
      `Set publish to auto, which renames file by file${orLink}.`,
    );
  if (publish === 'link' && !hasSymbolicLinks)
    refuse('has no symbolic links, which publish: link needs', 'Set publish to auto there.');
  if (timeStepMs === null || timeStepMs > COARSEST_STEP_MS)
    refuse(
      'does not keep the times of files to the second, so that every file would look changed',
      OTHER_HINT,
    );
  if (!keepsNames)
    refuse(
      'lists names in another case or Unicode form than they were given, so that every such file would look lost',
      OTHER_HINT,
    );
  if (foldsNames && nameTwins === 'accept')
    refuse(
      'takes names that differ in case or Unicode form for one, which archive.nameTwins: accept does not allow for',
      'Set archive.nameTwins to refuse.',
    );
}

/** The limits of a suitable file system, and their effects: each follows "the file system of X ". */
function limitsOf(
  { canExchange, hasSymbolicLinks, hasHardLinks, timeStepMs }: FileSystemFacts,
  { publish }: FileSystemWants,
): string[] {
  const limits: string[] = [];
  const advice = hasSymbolicLinks ? '; with publish: link they do not' : '';
  if (publish !== 'link' && !canExchange)
    limits.push(
      `cannot swap directories: publishing goes file by file, and readers may see a tree between two states for an instant${advice}`,
    );
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
 * @returns limits as of {@link examineFileSystem}, one for each mount point deeper in the program's folders; the rest can be mirrored
 * @throws MirrorError `directory.unusable` where one of these folders itself is on another file system
 */
export async function refuseMounts(layout: DirectoryLayout): Promise<string[]> {
  const root = await resolvedPath(layout.root);
  const device = (await unlessMissing(lstat(root)))?.dev;
  const points = mountPointsBelow(root);
  const { internal, mirror, manifests, history, trees } = layout;
  const folders = [internal, mirror, manifests, history, trees].map((folder) => join(root, basename(folder)));
  for (const folder of folders) {
    if (points.includes(folder))
      throw unusable(`${folder} is a mount point of its own`, ONE_FILE_SYSTEM_HINT);
    const found = await unlessMissing(lstat(folder));
    // A subvolume of btrfs is another file system, and no mount point.
    if (found?.isDirectory() === true && found.dev !== device)
      throw unusable(`${folder} is a file system or subvolume of its own`, ONE_FILE_SYSTEM_HINT);
  }
  return points
    .filter((point) => folders.some((folder) => point.startsWith(`${folder}/`)))
    .map(
      (point) => `has ${point} mounted in it: nothing can be published there, as that is another file system`,
    );
}

/**
 * Makes sure that the file system of a directory suits the settings.
 * @returns its properties; each of its limits follows "the file system of X "
 * @throws MirrorError `directory.unusable`; system errors
 */
export async function examineFileSystem(
  layout: DirectoryLayout,
  native: NativeCalls,
  wants: FileSystemWants,
): Promise<FileSystemFacts & { readonly limits: readonly string[] }> {
  const facts = await probeFileSystem(layout, native);
  refuseUnsuitable(layout.root, facts, wants);
  return { ...facts, limits: limitsOf(facts, wants) };
}

/**
 * The limits of a directory that another process may have open, or that does not exist yet. If this user may not try anything
 * there, null; then only the mounts are checked.
 * @throws MirrorError `directory.unusable`
 */
export async function limitsOfDirectory(directory: string, wants: FileSystemWants): Promise<string[] | null> {
  const layout = layoutOf(directory);
  const ofMounts = await refuseMounts(layout);
  try {
    await access(layout.staging, constants.W_OK);
    const { bindNativeCalls } = await import('../../lib/native/file-calls.ts');
    const { limits } = await examineFileSystem(layout, bindNativeCalls(), wants);
    return [...limits, ...ofMounts];
  } catch (error) {
    if (error instanceof MirrorError) throw error;
    return null;
  }
}

function unusable(what: string, hint: string): MirrorError {
  return new MirrorError('directory.unusable', `directory: ${what}.`, { hint });
}
