import { lstat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk, unlessMissing } from '../../../lib/errors/disk-errors.ts';
import type { Manifest } from '../manifest.ts';
import { commit, freeHistoryPath, type PublishContext, refuseUnrecovered } from './commit.ts';
import { type Intent, STAGED } from './intent.ts';
import { manifestPath, treePath } from '../layout.ts';
import { readManifest } from '../manifest-file.ts';
import { formatManifest } from '../manifest-text.ts';
import { linkText, treeAt } from '../published-tree.ts';
import { openStage, type Stage } from './stage.ts';

type Relocation = Extract<Intent, { how: 'relocate' }>;

/** Moves a tree and its manifest, if it has one, from the mirror to the dated history. */
export async function retireTree(context: PublishContext, path: string): Promise<void> {
  const to = await freeHistoryPath(context, path, 'retired');
  await relocateTree(context, path, to, `${to}.json`, null);
}

/** Moves a tree to the path of its renamed repository, and makes its manifest say so. */
export async function moveTree(
  context: PublishContext,
  from: string,
  to: string,
  manifest: Manifest,
): Promise<void> {
  for (const path of [from, to]) refuseUnrecovered(context, path);
  if (from === to) {
    await commitAlone(context, { how: 'manifest', path: to }, manifest);
    return;
  }
  const isOccupied = (await unlessMissing(lstat(treePath(context.layout, to)))) !== null;
  if (isOccupied) await retireTree(context, to);
  await relocateTree(context, from, `mirror/${to}`, `manifests/${to}.json`, manifest);
}

async function relocateTree(
  context: PublishContext,
  path: string,
  treeTo: string,
  manifestTo: string,
  manifest: Manifest | null,
): Promise<void> {
  refuseUnrecovered(context, path);
  await onDisk(`moving ${path}`, async () => {
    const tree = await unlessMissing(lstat(treePath(context.layout, path)));
    const place = treeAt(context.layout, path);
    const present = await readManifest(manifestPath(context.layout, path));
    const intent: Intent = {
      how: 'relocate',
      path,
      treeTo,
      manifestTo,
      treeInode: tree?.ino ?? null,
      linked: 'name' in place ? place.name : null,
      repositoryId: present?.repository.id ?? null,
    };
    await commitAlone(context, intent, manifest);
  });
}

/** Makes ready what takes the place of a link: another one to the same tree, or, in the history, links to its files. */
async function stageLinked(stage: Stage, { treeTo }: Relocation, linked: string): Promise<void> {
  if (!treeTo.startsWith('mirror/')) return stage.keepPublished();
  await symlink(linkText(treeTo.slice('mirror/'.length), linked), join(stage.folder, STAGED.link));
}

/** Carries out an intent that needs no staged files, but perhaps a manifest. */
async function commitAlone(
  context: PublishContext,
  intent: Intent,
  manifest: Manifest | null,
): Promise<void> {
  await context.checkDirectory();
  await onDisk(`moving ${intent.path}`, async () => {
    const { layout, inUse, flush, native } = context;
    const stage = await openStage(layout, intent.path, { inUse, flushMark: flush.mark(), native });
    try {
      if (manifest !== null) {
        await writeFile(join(stage.folder, STAGED.manifest), formatManifest(manifest), { flag: 'wx' });
      }
      if (intent.how === 'relocate' && intent.linked !== null)
        await stageLinked(stage, intent, intent.linked);
      await commit(context, stage, intent);
    } finally {
      await stage.discard();
    }
  });
}
