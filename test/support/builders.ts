import type { EventFields } from '../../src/app/events.ts';
import { type PassFinished, type PullProgress, summarySchema } from '../../src/mirror/pass/events.ts';
import type { Manifest, ManifestFile } from '../../src/mirror/store/manifest.ts';
import { fingerprintOfTree, groupRows } from '../../src/mirror/plan/workbooks.ts';
import type { PlanInput, PlanPolicy } from '../../src/mirror/plan/actions.ts';
import type { ConfiguredBranch, Selection } from '../../src/mirror/plan/selection.ts';
import {
  type Published,
  emptyRecord,
  type Failure,
  type Outcome,
  recordsUpToNow,
  type TargetRecord,
} from '../../src/mirror/plan/record.ts';
import {
  type Listing,
  type Repository,
  type TargetId,
  targetKey,
  type WorkbookRow,
} from '../../src/mirror/upstream/listing.ts';

/** The current time of the tests: 2025-06-02T10:00:00Z, in milliseconds since the epoch. */
export const NOW_MS = Date.UTC(2025, 5, 2, 10);
export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;

/** A repository; omitted fields follow from the full name. */
export function repository(fields: Partial<Repository> = {}): Repository {
  const fullName = fields.fullName ?? 'Accounting';
  const last = fullName.slice(fullName.lastIndexOf('/') + 1);
  return {
    id: `id-of-${fullName}`,
    name: last.replace(/\.git$/, ''),
    fullName,
    url: fullName.endsWith('.git') ? `https://${fullName}` : null,
    createdAt: '2025-01-01T00:00:00.000000+00:00',
    ...fields,
  };
}

/** A row of the list of workbooks; its id follows from repository and path. */
export function row(fields: Partial<WorkbookRow> = {}): WorkbookRow {
  const path = fields.path ?? 'plan.xlsx';
  const repositoryName = fields.repository ?? 'Accounting';
  return {
    id: `${repositoryName}/${path}`,
    path,
    repository: repositoryName,
    branch: 'main',
    versionId: 'v1',
    author: 'Ada',
    message: 'a change\n',
    createdAt: '2025-06-01T10:00:00+00:00',
    versionStatus: 'success',
    processing: 0,
    failure: 0,
    ...fields,
  };
}

/** A listing; by default, a complete one of one repository without workbooks. */
export function listing(fields: Partial<Listing> = {}): Listing {
  return {
    address: 'https://service.example/api',
    cached: null,
    takenAtMs: NOW_MS,
    serviceTimeMs: NOW_MS,
    repositories: [repository()],
    repositoriesComplete: true,
    workbooks: [],
    unread: { repositories: new Set(), isAnywhere: false },
    workbooksComplete: true,
    problems: [],
    ...fields,
  };
}

/** A manifest without files of a tree that was verified now. */
export function manifestWith(fields: Partial<Manifest> = {}): Manifest {
  return {
    repository: repository(),
    branch: 'main',
    verifiedAtMs: NOW_MS,
    comparedAtMs: fields.verifiedAtMs ?? NOW_MS,
    publishedAtMs: NOW_MS,
    restoredAtMs: null,
    fingerprint: null,
    borrowed: [],
    settled: true,
    etag: null,
    archiveBytes: 0,
    skipped: [],
    files: [],
    ...fields,
  };
}

/** A published tree of a repository's branch, verified ten minutes ago. */
export function published(of: Repository = repository(), fields: Partial<Published> = {}): Published {
  const { branch = 'main', verifiedAtMs = NOW_MS - 10 * MINUTE_MS } = fields;
  const publishedAtMs = NOW_MS - 10 * MINUTE_MS;
  const given = { repository: of, branch, verifiedAtMs, publishedAtMs, archiveBytes: 1000 };
  const { files: _files, skipped: _skipped, ...facts } = manifestWith(given);
  return {
    ...facts,
    path: `${of.fullName}/${encodeURIComponent(branch)}`,
    missing: [],
    fileCount: 1,
    sizeBytes: 900,
    treePresent: true,
    ...fields,
  };
}

/** A published tree that equals the rows, with the named files or, by default, those of the rows on its branch. */
export function publishedUnder(
  of: Repository,
  rows: readonly WorkbookRow[],
  fields: Partial<Published> & { readonly holds?: readonly string[] } = {},
): Published {
  const { holds, ...rest } = fields;
  const branch = fields.branch ?? 'main';
  const own = rows.filter((each) => each.repository === of.fullName);
  const files = holds?.map((path) => ({ path })) ?? own.filter((each) => each.branch === branch);
  const { digest, borrowed } = fingerprintOfTree(groupRows(own), branch, files);
  return published(of, { fingerprint: digest, borrowed, ...rest });
}

/** A target; by default, the branch `main` of the repository `Accounting`. */
export function target(branch = 'main', of: Repository = repository()): TargetId {
  return { repositoryId: of.id, branch };
}

/** A record with few facts, about the tree of `published`. */
export function record(fields: Partial<TargetRecord> = {}): TargetRecord {
  const publishedAtMs = NOW_MS - 10 * MINUTE_MS;
  return { ...emptyRecord(fields.target ?? target(), 'Accounting'), publishedAtMs, ...fields };
}

/** A failure with half an hour left to wait. */
export function failure(fields: Partial<Failure> = {}): Failure {
  return {
    code: 'service.failed',
    action: 'retry',
    message: 'The service failed.',
    hint: null,
    sinceMs: NOW_MS - HOUR_MS,
    lastAtMs: NOW_MS - MINUTE_MS,
    attempts: 1,
    nextAttemptAtMs: NOW_MS + HOUR_MS / 2,
    fingerprint: null,
    ...fields,
  };
}

/** Records for a plan. */
export function recordMap(...records: readonly TargetRecord[]): Map<string, TargetRecord> {
  return new Map(records.map((each) => [targetKey(each.target), each]));
}

/** A selection of everything, with branches named in the settings. */
export function selection({
  selects = () => true,
  configured = [],
}: Partial<Pick<Selection, 'selects'>> & { configured?: readonly ConfiguredBranch[] } = {}): Selection {
  return { selects, configuredBranches: () => configured, patterns: [] };
}

/** The policy of the default settings. */
export function planPolicy(fields: Partial<PlanPolicy> = {}): PlanPolicy {
  return {
    selection: selection(),
    fullCheckMs: 24 * HOUR_MS,
    processingPatienceMs: HOUR_MS,
    retireAfterPasses: 3,
    guard: { targets: { kind: 'off' }, files: { kind: 'off' } },
    content: 'auto',
    ...fields,
  };
}

/** The input of a plan: an empty mirror by default. */
export function planInput(fields: Partial<PlanInput> = {}): PlanInput {
  const input: PlanInput = {
    listing: listing(),
    published: [],
    others: [],
    shard: null,
    records: new Map(),
    approvals: new Map(),
    unreadable: new Set(),
    policy: planPolicy(),
    nowMs: NOW_MS,
    retries: new Set(),
    ...fields,
  };
  return { ...input, records: recordsUpToNow(input.records, input.nowMs) };
}

/** A file of an inventory; its digest follows from its path. */
export function manifestFile(path: string, fields: Partial<ManifestFile> = {}): ManifestFile {
  return { path, sizeBytes: 3, sha256: `digest of ${path}`, mode: 0o644, mtimeMs: NOW_MS, ...fields };
}

/** Changes of a tree, none unless named. */
export function changes(
  fields: Partial<Record<'added' | 'changed' | 'removed', readonly string[]>> = {},
): Record<'added' | 'changed' | 'removed', readonly string[]> {
  return { added: [], changed: [], removed: [], ...fields };
}

/** A selection's verdict that leaves out some branches. */
export function allBut(...branches: readonly string[]): Selection['selects'] {
  return (_repository, branch) => !branches.includes(branch);
}

/** The outcome of a pull that read or wrote every byte of the tree. */
export function pulledOutcome(
  changedFiles: number,
  publishedAtMs = NOW_MS,
): Extract<Outcome, { kind: 'pulled' }> {
  return { kind: 'pulled', changedFiles, publishedAtMs, isExamined: true, tree: null, isWhole: true };
}

/** The end of a pass that did nothing, with other fields as given. */
export function passFinished(fields: Partial<PassFinished> = {}): PassFinished {
  const nothing = {
    targets: 0,
    pulled: 0,
    changed: 0,
    failed: 0,
    held: 0,
    downloadedBytes: 0,
    changedFiles: 0,
  };
  return summarySchema.parse({ trigger: 'schedule', durationMs: 1, processing: 0, ...nothing, ...fields });
}

/** The event of a pull that changed nothing of `A/main`, with other fields as given. */
export function pulledEvent(
  fields: Partial<EventFields['target.pulled']> = {},
): { name: 'target.pulled' } & EventFields['target.pulled'] {
  return {
    name: 'target.pulled',
    target: 'A/main',
    reason: 'full-check',
    method: 'none',
    downloadedBytes: 0,
    files: 1,
    added: 0,
    changed: 0,
    removed: 0,
    durationMs: 1,
    ...fields,
  };
}

/** A quarter of a large download, with other fields as given. */
export function pullProgress(fields: Partial<PullProgress> = {}): PullProgress {
  return {
    target: 'git.example.com/org/big/main',
    phase: 'downloading',
    startedAtMs: NOW_MS,
    downloadedBytes: 512e6,
    doneBytes: 512e6,
    totalBytes: 2e9,
    isEstimate: false,
    bytesPerSecond: 41e6,
    leftMs: 36_293,
    ...fields,
  };
}
