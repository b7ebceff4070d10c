/** The limits of a workspace, for tools and uploads alike. */
export const workspaceLimits = { fileBytes: 10 * 1024 * 1024, totalBytes: 64 * 1024 * 1024, files: 2_000 };
