import { hash } from 'node:crypto';
import { lstat, readdir, readFile, utimes, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { onTestFinished } from 'vitest';

import { openStore } from '../../src/mirror/store/directory.ts';
import type { MirrorStore } from '../../src/mirror/store/disk.ts';
import { publishedManifest } from '../../src/mirror/store/inventory.ts';
import type { Manifest, ManifestFile } from '../../src/mirror/store/manifest.ts';
import { discardStage } from '../../src/mirror/store/publish/journal.ts';
import { publishStage } from '../../src/mirror/store/publish/publish.ts';
import { makeParents, openStage, setTime, type Stage } from '../../src/mirror/store/publish/stage.ts';
import { manifestWith, repository } from './builders.ts';

/** The time of all files and manifests that tests publish. */
export const TIME_MS = Date.UTC(2025, 0, 1);

/** Texts by path. */
export type Files = Readonly<Record<string, string>>;

/** Opens the store of a directory, without a history of replaced trees; its lock is released when the test is over. */
export async function openTestStore(
  directory: string,
  options: Partial<Parameters<typeof openStore>[0]> = {},
): Promise<MirrorStore> {
  const store = await openStore({
    directory,
    publish: 'auto',
    readerGraceMs: 60_000,
    retention: { retired: { kind: 'forever' }, replaced: { kind: 'off' } },
    now: Date.now,
    ...options,
  });
  onTestFinished(() => store.lock.release().catch(() => {}));
  return store;
}

/** The manifest of a tree of the repository Accounting. */
export function manifestOf(files: readonly ManifestFile[], id = 'id-1', fingerprint = 'f'): Manifest {
  const times = { verifiedAtMs: TIME_MS, publishedAtMs: TIME_MS };
  const of = repository({ id, createdAt: null });
  return manifestWith({ repository: of, ...times, fingerprint, archiveBytes: 1, files });
}

/** Publishes a tree as a pull does: only new and changed files are staged. @returns how it was published */
export async function publishFiles(
  store: MirrorStore,
  path: string,
  files: Files,
  repositoryId = 'id-1',
): Promise<string> {
  const present = await publishedManifest(store.layout, path);
  const before = present?.repository.id === repositoryId ? present : null;
  const known = new Map(before?.files.map((file) => [file.path, file]));
  const stage = await openStage(store, path);
  try {
    const inventory: ManifestFile[] = [];
    for (const [name, text] of Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1))) {
      const same = known.get(name);
      inventory.push(same?.sha256 === hash('sha256', text) ? same : await stageText(stage, name, text));
    }
    const manifest = manifestOf(inventory, repositoryId, JSON.stringify(files));
    return await publishStage(store, stage, { manifest, before });
  } finally {
    await discardStage(store, stage);
  }
}

/** Writes a file of the new tree. */
export async function stageText(
  stage: Stage,
  path: string,
  text: string,
  mtimeMs = TIME_MS,
): Promise<ManifestFile> {
  await makeParents(stage, path);
  await writeFile(join(stage.tree, path), text, { flag: 'wx', mode: 0o644 });
  stage.staged.add(path);
  const mode = await setTime(stage, path, mtimeMs);
  return { path, sizeBytes: Buffer.byteLength(text), sha256: hash('sha256', text), mtimeMs, mode };
}

/** The files below a folder, with their texts. */
export async function textsIn(root: string): Promise<Files> {
  const texts: Record<string, string> = {};
  for (const entry of await readdir(root, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (!entry.isDirectory()) texts[relative(root, file)] = await readFile(file, 'utf8');
  }
  return texts;
}

/** Changes a byte of a file without a trace in its size and mtime, like a failing disk or an attacker. */
export async function rot(file: string): Promise<void> {
  const { atime, mtime } = await lstat(file);
  const bytes = await readFile(file);
  bytes[0] = (bytes[0] ?? 0) ^ 1;
  await writeFile(file, bytes);
  await utimes(file, atime, mtime);
}
