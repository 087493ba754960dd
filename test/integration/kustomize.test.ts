import { spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

import { RULES_FILE } from '../support/alerts.ts';
import { temporaryFolder } from '../support/temporary.ts';

const ROOT = join(import.meta.dirname, '../..');
const CONFIG = join(ROOT, 'config');
const version = spawnSync('kubectl', ['version', '--client', '--output', 'json'], { encoding: 'utf8' });
const isMissing = version.error !== undefined;
/** Kustomize takes overlays as they are written today since it is in kubectl 1.21. */
const isOld = isMissing || Number(/"minor": "(\d+)/.exec(version.stdout)?.[1]) < 21;

interface Container {
  readonly name: string;
  readonly image: string;
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
}

interface Resource {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly data: Readonly<Record<string, string>>;
  readonly spec: {
    readonly selector: Readonly<Record<string, unknown>>;
    readonly ports: readonly { readonly targetPort: string }[];
    readonly jobLabel: string;
    readonly podMetricsEndpoints: readonly [
      {
        readonly port: string;
        readonly authorization: { readonly credentials: { readonly name: string; readonly key: string } };
      },
    ];
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly initContainers?: readonly Container[];
        readonly containers: readonly Container[];
      };
    };
  };
}

/** What Kustomize makes of a folder. */
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

/** A copy of the folder with the base, in which another one of the manifests is chosen. */
async function baseWith(manifests: string): Promise<string> {
  const folder = await temporaryFolder();
  await cp(CONFIG, folder, { recursive: true });
  const file = join(folder, 'kustomization.yaml');
  await writeFile(file, (await readFile(file, 'utf8')).replace('- kubernetes.yaml\n', `- ${manifests}\n`));
  return folder;
}

describe.skipIf(isMissing)('the base for Kustomize (skipped where kubectl is missing)', () => {
  it.each([
    ['kubernetes.yaml', 'Deployment'],
    ['kubernetes-standby.yaml', 'Deployment'],
    ['kubernetes-shards.yaml', 'StatefulSet'],
    ['kubernetes-shards-own-volumes.yaml', 'StatefulSet'],
  ])('has %s scraped and shown', async (manifests, workload) => {
    const { find } = build(await baseWith(manifests));
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
});

describe('the rules for alerts', () => {
  it('become a PrometheusRule by the command of the manual', async () => {
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
});
