/** What stands behind a flag, or in the place of an argument. */
export type Value =
  | { readonly kind: 'file' | 'folder' | 'text' }
  /** Targets that are mirrored, those that the history keeps, or ids of keys of the embedded service. */
  | { readonly kind: 'target' | 'kept' | 'key' }
  | { readonly kind: 'choice'; readonly choices: readonly string[] };

/** A flag of a command. */
export interface Flag {
  /** With its dashes. */
  readonly long: string;
  readonly short: string | undefined;
  /** One line. */
  readonly description: string;
  /** Null for a flag that stands alone. */
  readonly value: Value | null;
}

/** A command with what may follow it. */
export interface CommandNode {
  readonly name: string;
  /** The words that lead to it, without the program's name: `history restore`. */
  readonly path: string;
  readonly summary: string;
  readonly flags: readonly Flag[];
  /** What its arguments are; null where it takes none. */
  readonly argument: Value | null;
  readonly isRepeated: boolean;
  readonly children: readonly CommandNode[];
}

/** A command and all below it. */
export function everyNode(node: CommandNode): CommandNode[] {
  return [node, ...node.children.flatMap(everyNode)];
}

/** All flags of a tree by what they mean, each with the paths of the commands that have it. */
export function flagsByMeaning(
  root: CommandNode,
): { readonly flag: Flag; readonly paths: readonly string[] }[] {
  const found = new Map<string, { flag: Flag; paths: string[] }>();
  for (const node of everyNode(root)) {
    for (const flag of node.flags) {
      const meaning = JSON.stringify(flag);
      const known = found.get(meaning);
      if (known === undefined) found.set(meaning, { flag, paths: [node.path] });
      else known.paths.push(node.path);
    }
  }
  return [...found.values()];
}
