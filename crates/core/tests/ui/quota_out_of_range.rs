use slidegate::Quota;

const TOO_LARGE: Quota = Quota::per_minute(5_000_000_000);

fn main() {
    println!("{TOO_LARGE}");
}
