import { rename, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';

import { z } from 'zod';

import { writeNewFile } from '../../../lib/disk/durable.ts';
import type { DirectoryLayout } from '../layout.ts';
import { refuseLinks } from '../links.ts';
import { readOwnText } from '../../../lib/disk/own-file.ts';

/** The targets that an interrupted verification found in order, so that another one can go on from there. */
export type VerificationLog = Awaited<ReturnType<typeof openVerificationLog>>;

const LOG_FORMAT = 1;

/** Room for the stamps of a million targets. */
const MAX_LOG_BYTES = 512 * 1024 ** 2;

const logSchema = z.object({
  format: z.literal(LOG_FORMAT),
  /** Stamps of the manifests, by the path of the target. */
  verified: z.record(z.string(), z.string()),
});

/** How long what was noted may be in memory only, in milliseconds: so much is lost by a kill. */
const SAVE_AFTER_MS = 2000;

/**
 * Opens the log of a directory's verifications.
 * @param options.resume whether to go by what the last one left; otherwise it is replaced
 * @param options.isKept whether to write: a verification of some targets only must not replace that of all
 */
export async function openVerificationLog(
  layout: DirectoryLayout,
  { resume, isKept }: { readonly resume: boolean; readonly isKept: boolean },
) {
  const file = join(layout.internal, 'verification.json');
  const verified = new Map(resume ? await readLog(file) : []);
  let savedAtMs = performance.now();
  const save = async (): Promise<void> => {
    savedAtMs = performance.now();
    if (!isKept) return;
    const temporary = `${file}.new`;
    const text = JSON.stringify({ format: LOG_FORMAT, verified: Object.fromEntries(verified) });
    try {
      await refuseLinks(layout, [relative(layout.root, layout.internal)]);
      // What a kill left is in the way of nobody.
      await rm(temporary, { force: true });
      await writeNewFile(temporary, `${text}\n`);
      await rename(temporary, file);
    } catch {
      // The next verification begins anew.
    }
  };
  return {
    /** Whether a target was found in order under the manifest with this stamp. */
    has: (path: string, stamp: string): boolean => verified.get(path) === stamp,
    /** Notes a target that is in order. */
    add: async (path: string, stamp: string): Promise<void> => {
      verified.set(path, stamp);
      if (performance.now() - savedAtMs >= SAVE_AFTER_MS) await save();
    },
    /** Writes down what was noted; a directory that takes no file is none the worse for it. */
    save,
    /** Forgets everything: the verification is over. */
    remove: async (): Promise<void> => {
      if (isKept) await rm(file, { force: true }).catch(() => {});
    },
  };
}

/** A log that cannot be read or understood counts as none. */
async function readLog(file: string): Promise<[string, string][]> {
  try {
    const text = (await readOwnText(file, MAX_LOG_BYTES)) ?? '';
    return Object.entries(logSchema.parse(JSON.parse(text)).verified);
  } catch {
    return [];
  }
}
