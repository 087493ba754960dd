import { setTimeout as sleep } from 'node:timers/promises';

import { exitCodeOf, MirrorError } from '../../src/lib/errors/errors.ts';
import { API_KEY, API_TOKEN, type Fault, type FakeKnobs, FakeService } from './fake-service.ts';
import { type HarnessSettings, MirrorHarness } from './mirror-harness.ts';
import type { Attacked } from './sweep.ts';

/** The sick answer. */
export type Endpoint = 'repos' | 'workbooks' | 'second-page' | 'contents' | 'exists';

/** A failure until the next version. */
const QUARANTINES: ReadonlySet<string> = new Set(['archive.refused', 'contents.too_large']);

/** The result of a sick pass. */
interface SickPass {
  readonly exitCode: number;
  readonly codes: readonly string[];
}

/** A mirror of a service that is repeatedly made sick, each time with new changes. */
export class SickPair {
  readonly service: FakeService;
  readonly mirror: MirrorHarness;
  private readonly concerned: { readonly id: string };
  private round = 0;

  private constructor(service: FakeService, mirror: MirrorHarness, concerned: { readonly id: string }) {
    this.service = service;
    this.mirror = mirror;
    this.concerned = concerned;
  }

  static async open(knobs: Partial<FakeKnobs> = {}, settings: HarnessSettings = {}): Promise<SickPair> {
    const service = await FakeService.start({ pageSize: 2, ...knobs });
    // Numbers of equal length, so that all answers have the same length.
    service.sequence = 100_000;
    const concerned = service.addRepository('Accounting', { 'folder/plan.xlsx': '', 'folder/notes.txt': '' });
    const other = service.addRepository('host/org/plan.git', { 'a.xlsx': '', 'b.xlsx': '' });
    service.fork(other, 'main', 'feature/x');
    const mirror = await MirrorHarness.open(service, { ...settings });
    const pair = new SickPair(service, mirror, concerned);
    pair.edit();
    await mirror.pass();
    return pair;
  }

  async close(): Promise<void> {
    await this.mirror.close();
    await this.service.close();
  }

  /** The length of the body of an answer, in bytes. */
  async lengthOf(endpoint: Endpoint): Promise<number> {
    const { service } = this;
    const path = {
      repos: '/repos',
      workbooks: '/v1/workbooks',
      'second-page': '/v1/workbooks?page=2',
      contents: `/repos/${this.concerned.id}/contents?branch=main`,
      exists: `/repos/${this.concerned.id}/contents/folder/plan.xlsx?branch=main`,
    }[endpoint];
    const headers = path.startsWith('/v1/') ? { authorization: API_TOKEN } : { 'x-api-key': API_KEY };
    const answer = await fetch(service.baseUrl + path, { headers });
    const { byteLength } = await answer.arrayBuffer();
    service.takeRequests();
    return byteLength;
  }

  /** Makes a sick and a healthy pass. @returns the violations */
  async attack(endpoint: Endpoint, fault: Fault): Promise<Attacked> {
    const { service } = this;
    const before = await this.snapshot();
    this.edit();
    let isReached = false;
    service.fault = (path) => {
      if (!this.isAt(path, endpoint)) return null;
      isReached = true;
      return fault;
    };
    const pass = await this.sickPass();
    service.fault = null;
    const violations = [...(await this.faultsOf(before, endpoint, pass)), ...this.leaks()];
    const isQuarantined = pass.codes.some((code) => QUARANTINES.has(code));
    if (isQuarantined || (await this.skippedPaths()).size > 0) this.edit();
    violations.push(...(await this.healthyPass()), ...this.leaks());
    if (violations.length > 0) violations.push(`it had come to ${pass.exitCode} ${pass.codes.join(' ')}`);
    return { isReached, violations };
  }

  private isAt(path: string, endpoint: Endpoint): boolean {
    const [before = '', inner] = path.split('/contents');
    const isConcerned = before.endsWith(`/${this.concerned.id}`) || before.endsWith('/Accounting');
    switch (endpoint) {
      case 'repos':
        return path.endsWith('/repos');
      case 'workbooks':
        return path.endsWith('/workbooks');
      case 'second-page':
        return path.includes('/workbooks?page=2');
      case 'contents':
        return isConcerned && inner?.startsWith('?') === true;
      case 'exists':
        return isConcerned && inner?.startsWith('/') === true;
    }
  }

  /** Gives all files new bytes of the same length. */
  private edit(): void {
    this.round += 1;
    const text = `round ${String(this.round).padStart(6, '0')}`;
    for (const repository of this.service.repositories) {
      for (const [branch, { files }] of repository.branches) {
        for (const path of files.keys()) this.service.write(repository, branch, path, `${path} ${text}`);
      }
    }
  }

  private async sickPass(): Promise<SickPass> {
    try {
      const { exitCode, results } = await this.mirror.pass();
      const codes = results.flatMap(({ outcome }) => (outcome.kind === 'failed' ? [outcome.error.code] : []));
      return { exitCode, codes };
    } catch (error) {
      const code = error instanceof MirrorError ? error.code : String(error);
      return { exitCode: exitCodeOf(error), codes: [code] };
    }
  }

  private async healthyPass(): Promise<string[]> {
    try {
      const { exitCode } = await this.mirror.pass();
      await this.mirror.expectExact();
      return exitCode === 0 ? [] : [`the healthy pass came to ${exitCode}`];
    } catch (error) {
      // A connection of the sick answer may still be closing.
      await sleep(50);
      const again: unknown = await this.mirror.pass().catch((reason: unknown) => reason);
      return [`the healthy pass failed: ${String(error)}; the one after it: ${String(again)}`];
    }
  }

  private async faultsOf(
    before: ReadonlyMap<string, string>,
    endpoint: Endpoint,
    pass: SickPass,
  ): Promise<string[]> {
    const after = await this.snapshot();
    const faults: string[] = [];
    if (pass.exitCode === 70) faults.push('a defect');
    const skipped = await this.skippedPaths();
    if (pass.exitCode === 0) faults.push(...(await this.differences('the pass came to 0', skipped)));
    const isList = endpoint !== 'contents' && endpoint !== 'exists';
    const mustStay = isList && pass.exitCode === 3;
    for (const [target, old] of before) {
      const now = after.get(target);
      if (now === old) continue;
      if (mustStay) faults.push(`${target} changed although the list was not read`);
      else if (now === undefined) faults.push(`${target} is gone`);
      else faults.push(...this.tornOf(target, now, skipped));
    }
    for (const target of after.keys())
      if (!before.has(target)) faults.push(`${target} has come from nowhere`);
    if (this.mirror.eventsOf('target.retired').length > 0) faults.push('something was retired');
    return faults;
  }

  /**
   * The skipped entries of the manifests. No checksum of a zip archive covers the kind of an entry, so one changed bit can turn a file into a
   * link: it is then skipped, and recorded in the manifest.
   */
  private async skippedPaths(): Promise<Set<string>> {
    const paths = new Set<string>();
    for (const target of await this.mirror.targets())
      for (const { path } of (await this.mirror.manifest(target)).skipped) paths.add(`${target}/${path}`);
    return paths;
  }

  /** The contents of the service, without the omitted entries. */
  private expected(skipped: ReadonlySet<string>): Record<string, ReadonlyMap<string, Buffer>> {
    const trees: Record<string, ReadonlyMap<string, Buffer>> = {};
    for (const [target, files] of Object.entries(this.service.expectedTrees()))
      trees[target] = new Map([...files].filter(([path]) => !skipped.has(`${target}/${path}`)));
    return trees;
  }

  /** The faults of a changed tree: it must equal the service's. */
  private tornOf(target: string, now: string, skipped: ReadonlySet<string>): string[] {
    const expected = this.expected(skipped)[target];
    const wanted = expected === undefined ? '' : treeText(expected);
    return now.startsWith(`${wanted}\n--\n`)
      ? []
      : [`${target} is neither old nor new: ${now.slice(0, 500)}`];
  }

  private async differences(when: string, skipped: ReadonlySet<string>): Promise<string[]> {
    try {
      await this.mirror.expectExact(this.expected(skipped));
      return [];
    } catch (error) {
      return [`${when}, but the mirror is not exact: ${String(error).slice(0, 500)}`];
    }
  }

  private leaks(): string[] {
    const leaks = this.service
      .credentialFaults()
      .map((request) => `a credential where it does not belong: ${request}`);
    this.service.takeRequests();
    return leaks;
  }

  /** Every target's tree and manifest, as one text each. */
  private async snapshot(): Promise<Map<string, string>> {
    const { mirror } = this;
    const manifests = await mirror.files('manifests');
    const files = await mirror.files('mirror');
    const texts = new Map<string, string>();
    for (const [name, manifest] of manifests) {
      const target = name.replace(/\.json$/, '');
      const own = [...files].filter(([path]) => path.startsWith(`${target}/`));
      const tree = new Map(own.map(([path, bytes]) => [path.slice(target.length + 1), bytes]));
      texts.set(target, `${treeText(tree)}\n--\n${String(manifest)}`);
    }
    for (const path of files.keys()) {
      if (![...texts.keys()].some((target) => path.startsWith(`${target}/`)))
        texts.set(path, 'without a manifest');
    }
    return texts;
  }
}

function treeText(tree: ReadonlyMap<string, Buffer>): string {
  return [...tree]
    .map(([path, bytes]) => `${path}: ${bytes.toString('hex')}`)
    .sort()
    .join('\n');
}
