export const KIB = 1_024;
export const MIB = 1_048_576;
