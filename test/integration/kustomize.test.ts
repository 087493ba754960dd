import { spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it, vi } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

import { loadSettings } from '../../src/config/load.ts';
import { RULES_FILE } from '../support/alerts.ts';
import type { Container } from '../support/kubernetes.ts';
import { temporaryFolder } from '../support/temporary.ts';

const ROOT = join(import.meta.dirname, '../..');
const CONFIG = join(ROOT, 'config');
const version = spawnSync('kubectl', ['version', '--client', '--output', 'json'], { encoding: 'utf8' });
const isMissing = version.error !== undefined;
/** Overlays in today's form need the Kustomize of kubectl 1.21 or later. */
const isOld = isMissing || Number(/"minor": "(\d+)/.exec(version.stdout)?.[1]) < 21;

interface Claim {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly accessModes: readonly string[] };
}

interface Resource {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly data: Readonly<Record<string, string>>;
  readonly spec: Claim['spec'] & {
    readonly replicas: number;
    readonly serviceName?: string;
    readonly selector: Readonly<Record<string, unknown>>;
    readonly ports: readonly { readonly targetPort: string }[];
    readonly jobLabel: string;
    readonly podMetricsEndpoints: readonly [
      {
        readonly port: string;
        readonly authorization: { readonly credentials: { readonly name: string; readonly key: string } };
      },
    ];
    readonly volumeClaimTemplates?: readonly Claim[];
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly initContainers?: readonly Container[];
        readonly containers: readonly Container[];
        readonly volumes: readonly { readonly name: string }[];
      };
    };
  };
}

/** The output of Kustomize for a folder. */
function build(folder: string) {
  const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', folder], { encoding: 'utf8' });
  expect({ status, stderr }).toMatchObject({ status: 0 });
  const resources = parseAllDocuments(stdout).map((document) => document.toJS() as Resource);
  const find = (kind: string, name = 'workbook-mirror'): Resource => {
    const found = resources.find((resource) => resource.kind === kind && resource.metadata.name === name);
    if (found === undefined) throw new Error(`no ${kind} ${name}`);
    return found;
  };
  return { resources, find };
}

/** The code of a kind below a heading of the chapter. */
async function fromChapter(language: string): Promise<string> {
  const chapter = await readFile(join(ROOT, 'src/manual/container.md'), 'utf8');
  const [, , section = ''] = /(^|\n)## Kustomize\n([^]*?)(?=\n## |$)/.exec(chapter) ?? [];
  const [, code = ''] = new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(section) ?? [];
  expect(code).not.toBe('');
  return code;
}

/** A copy of the base in which one of the components is chosen, as its comments say. */
async function baseWith(component: string | null, name = '.'): Promise<string> {
  const folder = join(await temporaryFolder(), name);
  await cp(CONFIG, folder, { recursive: true });
  const file = join(folder, 'kustomization.yaml');
  const text = await readFile(file, 'utf8');
  const chosen = text
    .replace('# components:', 'components:')
    .replace(`#   - kubernetes/${component}\n`, `  - kubernetes/${component}\n`);
  if (component !== null) await writeFile(file, chosen);
  return folder;
}

/** The settings of a pod, with secrets that are there. */
async function settingsOf(map: Resource, container: Container, ordinal: number) {
  const folder = await temporaryFolder();
  for (const name of ['service-api-key', 'service-api-token', 'http-token'])
    await writeFile(join(folder, name), name, { mode: 0o600 });
  const text = (map.data['config.yaml'] ?? '').replaceAll('/run/secrets/workbook-mirror', folder);
  const configFile = join(folder, 'config.yaml');
  await writeFile(configFile, text);
  const env: Record<string, string> = { WORKBOOK_MIRROR_DIRECTORY: '/data' };
  for (const { name } of container.env ?? []) env[name] = 'rediss://user:word@redis.example.com:6379';
  vi.stubEnv('JOB_COMPLETION_INDEX', String(ordinal));
  return loadSettings({ flags: {}, env, configFile, needs: ['service', 'directory'] }).settings;
}

describe.skipIf(isMissing)('the base for Kustomize (skipped where kubectl is missing)', () => {
  it.each([
    [null, 'Deployment'],
    ['standby', 'Deployment'],
    ['shards', 'StatefulSet'],
    ['shards-own-volumes', 'StatefulSet'],
  ])('has the component %s scraped and shown', async (component, workload) => {
    const { find } = build(await baseWith(component));
    const { template } = find(workload).spec;
    const { labels } = template.metadata;
    const monitor = find('PodMonitor').spec;
    const [endpoint] = monitor.podMetricsEndpoints;
    expect(monitor.selector).toEqual({ matchLabels: labels });
    expect(labels[monitor.jobLabel]).toBe('workbook-mirror');
    const service = find('Service').spec;
    expect(service.selector).toEqual(labels);
    expect(service.ports[0]?.targetPort).toBe(endpoint.port);
    const containers = [...(template.spec.initContainers ?? []), ...template.spec.containers];
    const ports = containers.flatMap((container) => container.ports ?? []);
    expect(ports).toEqual([{ name: endpoint.port, containerPort: 9480 }]);
    const { name, key } = endpoint.authorization.credentials;
    const settings = parse(find('ConfigMap').data['config.yaml'] ?? '') as { http: { tokenFile: string } };
    expect(`${name}/${key}`).toBe(settings.http.tokenFile.replace('/run/secrets/', ''));
    const dashboard = find('ConfigMap', 'workbook-mirror-dashboard');
    expect(dashboard.metadata.labels).toEqual({ grafana_dashboard: '1' });
    expect(dashboard.data['grafana-dashboard.json']).toBe(
      await readFile(join(CONFIG, 'grafana-dashboard.json'), 'utf8'),
    );
  });

  it.each([
    ['standby', { standby: true, publish: 'link' }, ['ReadWriteMany']],
    ['shards', { shard: { index: 2, count: 5 }, publish: 'link' }, ['ReadWriteMany']],
    ['shards-own-volumes', { shard: { index: 2, count: 5 }, state: { store: 'redis' } }, ['ReadWriteOnce']],
  ])('has with the component %s instances alone, with these settings', async (component, expected, modes) => {
    const { resources, find } = build(await baseWith(component));
    const workload = resources.find(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet');
    if (workload === undefined) throw new Error('no workload');
    const { template, replicas, serviceName, volumeClaimTemplates = [] } = workload.spec;
    const { containers, volumes, initContainers = [] } = template.spec;
    const [container] = containers;
    if (container === undefined) throw new Error('no container');
    expect([initContainers, containers.map(({ args }) => args)]).toEqual([[], [['run']]]);
    const writable = container.volumeMounts.filter(({ readOnly }) => readOnly !== true);
    expect(writable).toEqual([{ name: 'mirror', mountPath: '/data' }]);
    const names = [...volumeClaimTemplates.map(({ metadata }) => metadata), ...volumes].map(
      ({ name }) => name,
    );
    expect(names.sort()).toEqual(container.volumeMounts.map(({ name }) => name).sort());
    const claims = resources.filter(({ kind }) => kind === 'PersistentVolumeClaim');
    expect([...claims, ...volumeClaimTemplates].map(({ spec }) => spec.accessModes)).toEqual([modes]);
    const settings = await settingsOf(find('ConfigMap'), container, 1);
    expect(settings).toMatchObject(expected);
    expect(replicas).toBe(settings.shard?.count ?? 2);
    expect(serviceName).toBe(settings.shard === undefined ? undefined : find('Service').metadata.name);
  });

  it.skipIf(isOld)(
    'goes under the overlay of the manual (skipped where kubectl is older than 1.21)',
    async () => {
      const folder = await temporaryFolder();
      await cp(CONFIG, join(folder, 'base'), { recursive: true });
      await writeFile(join(folder, 'kustomization.yaml'), await fromChapter('yaml'));
      await writeFile(join(folder, 'config.yaml'), 'schedule: own\n');
      for (const name of ['api-key', 'api-token', 'http-token']) await writeFile(join(folder, name), name);
      const { resources, find } = build(folder);
      expect(new Set(resources.map(({ metadata }) => metadata.namespace))).toEqual(new Set(['workbooks']));
      expect(find('ConfigMap').data['config.yaml']).toBe('schedule: own\n');
      const { initContainers = [], containers } = find('Deployment').spec.template.spec;
      expect(initContainers.map(({ image }) => image.replace(/:.*/, ''))).toEqual([
        'registry.internal/workbook-mirror',
        'registry.internal/workbook-mirror',
      ]);
      expect(containers.map(({ image }) => image)).toEqual(['registry.internal/reader:7']);
      const { name, key } = find('PodMonitor').spec.podMetricsEndpoints[0].authorization.credentials;
      expect(Object.keys(find('Secret', name).data).sort()).toEqual([
        key,
        'service-api-key',
        'service-api-token',
      ]);
    },
  );

  it.skipIf(isOld)(
    'keeps the settings of an overlay with a component (skipped where kubectl is older than 1.21)',
    async () => {
      const folder = join(await baseWith('standby', 'base'), '..');
      await writeFile(join(folder, 'kustomization.yaml'), await fromChapter('yaml'));
      await writeFile(join(folder, 'config.yaml'), 'standby: true\n');
      for (const name of ['api-key', 'api-token', 'http-token']) await writeFile(join(folder, name), name);
      const { find } = build(folder);
      expect(find('ConfigMap').data['config.yaml']).toBe('standby: true\n');
      expect(find('Deployment').spec.replicas).toBe(2);
    },
  );
});

it('the rules for alerts become a PrometheusRule by the command of the manual', async () => {
  const folder = await temporaryFolder();
  await mkdir(join(folder, 'config'));
  await cp(RULES_FILE, join(folder, 'config/alerts.yaml'));
  const { status } = spawnSync('sh', ['-ec', await fromChapter('sh')], { cwd: folder });
  expect(status).toBe(0);
  const made = await readFile(join(folder, 'prometheus-rule.yaml'), 'utf8');
  expect(parse(made)).toEqual({
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'workbook-mirror' },
    spec: parse(await readFile(RULES_FILE, 'utf8')) as unknown,
  });
});
