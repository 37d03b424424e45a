//! Which settings are worth a try.

/// Settings that a report tries without being asked, besides the recorded ones.
pub const STANDARD: [&str; 9] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:200",
    "max_split_size_mb:512",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.6",
    "backend:cudaMallocAsync",
];

/// Splits and divisions of a search, alone and with expandable segments.
#[must_use]
pub fn search() -> Vec<String> {
    const SPLITS: [u64; 14] = [32, 48, 64, 96, 128, 160, 200, 256, 320, 384, 512, 640, 768, 1024];
    const DIVISIONS: [u64; 6] = [1, 2, 4, 8, 16, 32];
    let mut found: Vec<String> = STANDARD.iter().map(|&text| text.to_owned()).collect();
    found.extend(SPLITS.iter().map(|mib| format!("max_split_size_mb:{mib}")));
    found.extend(DIVISIONS.iter().map(|count| format!("roundup_power2_divisions:{count}")));
    found.extend(
        DIVISIONS.iter().map(|count| format!("expandable_segments:True,roundup_power2_divisions:{count}")),
    );
    found
        .extend(SPLITS[2..9].iter().map(|mib| format!("max_split_size_mb:{mib},roundup_power2_divisions:8")));
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|text| seen.insert(text.clone()));
    found
}
