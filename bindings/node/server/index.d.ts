/** The path of the program `statestored` for this platform. */
export const statestoredPath: string;
