/** The shells that there is a completion for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** Names that can be asked for by themselves, as scripts of earlier versions do. */
export const NAMES = ['targets', 'history', 'keys'] as const;
