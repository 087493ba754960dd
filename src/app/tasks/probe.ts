import { packageVersion } from '../../lib/process/program-folder.ts';
import { scrubbed } from '../../lib/text/scrub.ts';
import { probe, type ProbeReport } from '../../probe/probe.ts';
import { secretsOf } from '../../config/secret.ts';
import type { RequestOf } from './requests.ts';
import type { TaskWork } from './task.ts';

/** Greatest archive or file that is downloaded, in bytes. */
const MAX_DOWNLOAD_BYTES = 64_000_000;

/** How many repositories, branches of each, and files of each branch are looked into. */
const SAMPLE = 2;

/**
 * Finds out how the service behaves where its specification is silent. It only reads.
 * @returns the report, with the program that made it
 * @throws MirrorError as `probe`, `settings.invalid`
 */
export async function probeService(
  { settings: { ofService }, signal, tell }: TaskWork,
  { withWrongKey, maxRequests }: RequestOf<'probe'>,
): Promise<ProbeReport & { readonly program: string }> {
  const settings = ofService();
  const { service } = settings;
  const made = await probe({
    baseUrl: service.baseUrl,
    credential: (generation) =>
      (generation === 'current' ? service.apiKey : service.apiToken)?.reveal() ?? null,
    timeoutMs: service.timeout,
    signal,
    maxRequests,
    onProgress: (what, sent) => tell(`${sent} of at most ${maxRequests} requests: ${what}`),
    withWrongKey,
    sample: SAMPLE,
    maxDownloadBytes: MAX_DOWNLOAD_BYTES,
  });
  return scrubbed({ program: `workbook-mirror ${packageVersion()}`, ...made }, secretsOf(settings));
}
