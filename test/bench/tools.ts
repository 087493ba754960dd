import { spawnSync } from 'node:child_process';

/** Programs that contenders need, with the Debian packages that bring them. */
export const PACKAGES = {
  bash: 'bash',
  bsdtar: 'libarchive-tools',
  curl: 'curl',
  git: 'git',
  jq: 'jq',
  rclone: 'rclone',
  rsync: 'rsync',
  unzip: 'unzip',
} as const;

/** A program that a contender needs. */
export type Tool = keyof typeof PACKAGES;

/** The first of some programs that is not on this machine, or null. */
export function missingOf(tools: readonly Tool[]): Tool | null {
  return tools.find((tool) => !isThere(tool)) ?? null;
}

const found = new Map<Tool, boolean>();

function isThere(tool: Tool): boolean {
  const known = found.get(tool);
  if (known !== undefined) return known;
  const { error } = spawnSync(tool, ['--version'], { stdio: 'ignore' });
  found.set(tool, error === undefined);
  return error === undefined;
}

/** The tools that are missing altogether. */
export function allMissing(): Tool[] {
  return (Object.keys(PACKAGES) as Tool[]).filter((tool) => !isThere(tool));
}
