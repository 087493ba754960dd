import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { replaceFile } from '../../../lib/disk/durable.ts';
import { readOwnText } from '../../../lib/disk/own-file.ts';
import type { ShareReport } from '../../plan/shard.ts';
import { shareReportSchema } from '../../state/schemas.ts';
import type { Disk } from '../disk.ts';
import type { DirectoryLayout } from '../layout.ts';
import { otherInstances } from './other-instances.ts';

const MAX_REPORT_BYTES = 64 * 1024;

/** Writes how this instance's share stands, for all who ask in the directory. @throws MirrorError `directory.*`, `disk.*` */
export async function writeShareReport(
  { layout, lock }: Pick<Disk, 'layout' | 'lock'>,
  report: ShareReport,
): Promise<void> {
  await lock.check();
  await onDisk('writing how the share stands', () =>
    replaceFile(layout.shareReport, `${JSON.stringify(report)}\n`, layout.staging),
  );
}

/** Reads what the instances that share a directory said of their shares. What cannot be understood counts as nothing. */
export async function readShareReports(layout: DirectoryLayout): Promise<ShareReport[]> {
  const reports: ShareReport[] = [];
  for (const { shareReport } of [layout, ...(await otherInstances(layout))]) {
    const text = await readOwnText(shareReport, MAX_REPORT_BYTES).catch(() => null);
    const { data } = shareReportSchema.safeParse(jsonOf(text ?? ''));
    if (data !== undefined) reports.push(data);
  }
  return reports;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
