import type { ToldTree } from '../../mirror/plan/due-hooks.ts';
import type { EventSink } from '../../mirror/pass/events.ts';
import type { Manifest } from '../../mirror/store/manifest.ts';
import type { Published } from '../../mirror/plan/targets.ts';

/** A command and how long it may take, in milliseconds. */
export interface HookCommand {
  readonly words: readonly string[];
  readonly timeoutMs: number;
}

/** The mirror, as commands are told of it. All paths are absolute but those of targets. */
export interface HookPlaces {
  readonly directory: string;
  readonly treeOf: (target: string) => string;
  readonly manifestOf: (target: string) => string;
}

/** What every hook works with. */
export interface HookSurroundings {
  readonly places: HookPlaces;
  /** The variables of this process. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Masks the secrets in a text. */
  readonly scrub: (text: string) => string;
}

/** What the command after publishing needs of the rest. */
export interface AfterPublishPorts extends HookSurroundings {
  /** The command as the settings have it now; null for none. */
  readonly command: () => HookCommand | null;
  readonly inventory: () => Promise<{
    readonly published: readonly Published[];
    readonly unreadable: readonly string[];
  }>;
  readonly manifest: (target: string) => Promise<Manifest | null>;
  /** What the command was told, by path; null while that cannot be read. */
  readonly recall: () => Promise<ReadonlyMap<string, ToldTree> | null>;
  /** Remembers what the command was told of a path; null for nothing any more. */
  readonly remember: (target: string, tree: ToldTree | null) => Promise<void>;
  readonly emit: EventSink;
}
