import { crc32 } from 'node:zlib';

import { z } from 'zod';

import { isTargetPath } from '../../lib/paths/file-name.ts';
import type { Published } from '../plan/targets.ts';
import { replaceFile } from '../../lib/disk/durable.ts';
import type { DirectoryLayout } from './layout.ts';
import { readOwnText } from '../../lib/disk/own-file.ts';

/** What a manifest says of its tree as a whole. */
export type Summary = Omit<Published, 'treePresent'>;

/** A summary, and the state of the file that it was made from. */
export interface StampedSummary {
  readonly stamp: string;
  /** Null where the manifest cannot be understood. */
  readonly summary: Summary | null;
}

/** To be raised when summaries say something else than before, or say it of other manifests. */
const FORMAT = 1;

const time = z.number();
const count = z.number().int().nonnegative();

const summarySchema = z.object({
  path: z.string().refine(isTargetPath),
  repository: z.object({
    id: z.string().min(1),
    name: z.string(),
    fullName: z.string().min(1),
    url: z.string().nullable(),
    createdAt: z.string().nullable().optional(),
  }),
  branch: z.string().min(1),
  fingerprint: z.string().nullable(),
  borrowed: z.array(z.string()),
  settled: z.boolean(),
  etag: z.string().nullable(),
  verifiedAtMs: time,
  comparedAtMs: time.nullable(),
  publishedAtMs: time,
  restoredAtMs: time.nullable(),
  archiveBytes: count,
  fileCount: count,
  sizeBytes: count,
  sharedBytes: count,
}) satisfies z.ZodType<Summary>;

const fileSchema = z.array(z.object({ stamp: z.string(), summary: summarySchema }));

/** Room for a million targets. */
const MAX_FILE_BYTES = 1024 ** 3;

/** The first line: what may be believed of the rest. */
function headOf(body: string): string {
  return `${FORMAT} ${crc32(body)}`;
}

/**
 * Reads the summaries that {@link writeSummaries} wrote, by the paths of their targets. They spare reading manifests, and nothing
 * else depends on them: where they cannot be read, or are damaged, there are none.
 */
export async function readSummaries({ summaries }: DirectoryLayout): Promise<Map<string, StampedSummary>> {
  try {
    const text = (await readOwnText(summaries, MAX_FILE_BYTES)) ?? '';
    const lineBreak = text.indexOf('\n');
    const body = text.slice(lineBreak + 1);
    if (text.slice(0, lineBreak) !== headOf(body)) return new Map();
    const known = new Map<string, StampedSummary>();
    for (const each of fileSchema.parse(JSON.parse(body))) known.set(each.summary.path, each);
    return known;
  } catch {
    return new Map();
  }
}

/** Writes the summaries of all manifests that can be understood, for the next process. @throws what the disk says */
export async function writeSummaries(
  layout: DirectoryLayout,
  known: ReadonlyMap<string, StampedSummary>,
): Promise<void> {
  const body = JSON.stringify([...known.values()].filter(({ summary }) => summary !== null));
  await replaceFile(layout.summaries, `${headOf(body)}\n${body}`, layout.staging);
}
