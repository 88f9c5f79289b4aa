use slidegate::{Cost, Quota};

const API: Quota = Quota::per_minute(100);
const UPLOAD: Cost = Cost::saturating(5);

fn main() {
    assert_eq!((API.limit(), UPLOAD.get()), (100, 5));
}
