import { constants } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

import { diskError, onDisk } from '../../lib/errors/disk-errors.ts';
import { byCodeUnits, type Manifest } from '../../mirror/store/manifest.ts';
import { unlessAbsent } from './folders.ts';
import type { MirrorPort } from './ports.ts';

/** A manifest as it was on disk. */
export interface StampedManifest {
  /** Tells one state of the file from the next. */
  readonly stamp: string;
  /** When the file was written, in milliseconds since the epoch. */
  readonly writtenAtMs: number;
  /** Null where it cannot be understood. */
  readonly manifest: Manifest | null;
}

const SUFFIX = '.json';

function fileOf({ manifests }: MirrorPort, target: string): string {
  return join(manifests, `${target}${SUFFIX}`);
}

/** What the folder of the manifests holds. Both are sorted paths below `mirror/`. */
export interface ListedTargets {
  /** The targets that have a manifest. */
  readonly targets: readonly string[];
  /** Where something stands that is neither a manifest nor a folder of them, as a link: what it hides is not known. */
  readonly hidden: readonly string[];
}

/**
 * The targets that have a manifest. Other than a folder in it, the folder itself cannot vanish: where
 * it does, the disk does, and that is not to be taken for a mirror of nothing.
 * @throws MirrorError `disk.failed`
 */
export async function listTargets({ manifests }: MirrorPort): Promise<ListedTargets> {
  return onDisk('listing the manifests', async () => {
    const targets: string[] = [];
    const hidden: string[] = [];
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const listing = readdir(join(manifests, folder), { withFileTypes: true });
      const entries = folder === '' ? await listing : ((await unlessAbsent(listing)) ?? []);
      for (const entry of entries) {
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
        if (entry.isDirectory()) folders.push(path);
        else if (path.endsWith(SUFFIX))
          (entry.isFile() ? targets : hidden).push(path.slice(0, -SUFFIX.length));
        else if (!entry.isFile()) hidden.push(path);
      }
    }
    return { targets: targets.sort(byCodeUnits), hidden: hidden.sort(byCodeUnits) };
  });
}

/** Reads one state of a target's manifest; null where there is none. @throws MirrorError `disk.failed` */
export async function readStamped(
  port: MirrorPort,
  target: string,
  knownStamp: string | null = null,
): Promise<StampedManifest | 'known' | null> {
  try {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    const handle = await unlessAbsent(open(fileOf(port, target), flags));
    if (handle === null) return null;
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await handle.stat({ bigint: true });
      const stamp = `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`;
      if (stamp === knownStamp) return 'known';
      // A manifest is replaced, never written into: what is read through one handle is one state.
      const manifest = port.parseManifest(await handle.readFile('utf8'));
      return { stamp, writtenAtMs: Number(mtimeNs) / 1e6, manifest };
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw diskError(error, 'reading a manifest');
  }
}
